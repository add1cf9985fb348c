package experiment

import (
	"reflect"

	"github.com/zclconf/go-cty/cty"
)

// blockRef is the value of a reference such as dataset.train.
type blockRef struct{ Kind, Name string }

func (r blockRef) String() string { return r.Kind + "." + r.Name }

var refType = cty.Capsule("reference", reflect.TypeFor[blockRef]())
