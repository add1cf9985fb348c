module example.org/forage-cispo

go 1.27

require github.com/forage-rl/forage v0.0.0

replace github.com/forage-rl/forage => ../../../..
