package objective

import "testing"

func TestString(t *testing.T) {
	advantage := Field("advantage", Sequence)
	loss := TokenMean(Surrogate(Ratio(), advantage, .2, .28, 0), "")
	o, err := New("actor", TrainsPolicy, Sub(loss, Mul(Const(.01), TokenMean(Entropy(), MaskResponse))), map[string]Expr{"policy_loss": loss})
	if err != nil {
		t.Fatal(err)
	}
	want := `objective "actor" trains the policy
  x1 = exp(logp - old_logp)
  x2 = token_to_scalar(mean, policy, max(-advantage[sequence] * x1, -advantage[sequence] * clip(x1, 0.8, 1.28)))
  loss = x2 - (0.01 * token_to_scalar(mean, response, entropy))
  metric policy_loss = x2
`
	if got := o.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	broken := Objective{Name: "x", Trains: TrainsPolicy, Loss: 3}
	if got := broken.String(); got != "objective \"x\" trains the policy\n  objective \"x\": loss refers to node 3 of 0\n" {
		t.Errorf("got %q", got)
	}
}
