package experiment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are those of every study: pure ones of the cty library. There is no clock, randomness or environment.
func functions() map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "int": stdlib.IntFunc, "log": aNumber(stdlib.LogFunc),
		"pow": aNumber(stdlib.PowFunc), "signum": stdlib.SignumFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc,
		"chomp": stdlib.ChompFunc, "chunklist": stdlib.ChunklistFunc, "coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc,
		"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "csvdecode": stdlib.CSVDecodeFunc,
		"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "format": stdlib.FormatFunc,
		"formatlist": stdlib.FormatListFunc, "indent": stdlib.IndentFunc, "index": stdlib.IndexFunc, "join": stdlib.JoinFunc,
		"jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "keys": stdlib.KeysFunc, "length": stdlib.LengthFunc,
		"lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "merge": stdlib.MergeFunc, "range": stdlib.RangeFunc,
		"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "regexreplace": stdlib.RegexReplaceFunc, "replace": stdlib.ReplaceFunc,
		"reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc, "setproduct": stdlib.SetProductFunc,
		"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc,
		"split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc,
		"title": stdlib.TitleFunc, "tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number), "tostring": stdlib.MakeToFunc(cty.String),
		"tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,
		"metric": metricFunction(), "best": bestFunction(),
	}
}

// aNumber says plainly that arguments such as those of log(-1, 2) lead to no number, where the library panics.
func aNumber(f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), Type: function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := f.Call(args)
			if panicked := (function.PanicError{}); errors.As(err, &panicked) {
				return cty.NilVal, errors.New("for these arguments it is not a number")
			}
			return v, err
		},
	})
}

// Metric names a number of an evaluation, or the mean of that number over several.
type Metric struct {
	Evaluations []string
	Metric      string
}

// String is "test/em", or "mean of a/em, b/em".
func (m Metric) String() string {
	var list []string
	for _, e := range m.Evaluations {
		list = append(list, e+"/"+m.Metric)
	}
	if len(list) == 1 {
		return list[0]
	}
	return "mean of " + strings.Join(list, ", ")
}

var (
	metricType = cty.Capsule("metric", reflect.TypeFor[Metric]())
	selectType = cty.Capsule("best", reflect.TypeFor[Select]())
)

// metricFunction is metric("test", "em") or metric(["hotpot", "musique"], "em").
func metricFunction() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "evaluation", Type: cty.DynamicPseudoType}, {Name: "metric", Type: cty.String}},
		Type:   function.StaticReturnType(metricType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			m := &Metric{Metric: args[1].AsString()}
			list := []cty.Value{args[0]}
			if isList(args[0]) {
				list = args[0].AsValueSlice()
			}
			for _, e := range list {
				if e.IsNull() || e.Type() != cty.String || slices.Contains(m.Evaluations, e.AsString()) {
					return cty.NilVal, function.NewArgErrorf(0, "the name of an evaluation or a list of different ones is required, got %s", shown(e))
				}
				m.Evaluations = append(m.Evaluations, e.AsString())
			}
			if len(m.Evaluations) == 0 {
				return cty.NilVal, function.NewArgErrorf(0, "at least one evaluation is required")
			}
			return cty.CapsuleVal(metricType, m), nil
		},
	})
}

func bestFunction() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "evaluation", Type: cty.String}, {Name: "metric", Type: cty.String}}, Type: function.StaticReturnType(selectType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.CapsuleVal(selectType, &Select{Kind: SelectBest, Evaluation: args[0].AsString(), Metric: args[1].AsString()}), nil
		},
	})
}

// maxTextFile bounds what file() reads: prompts, not data.
const maxTextFile = 1 << 20

// fileFunction reads texts relative to the folder dir of the calling file, only below one of the study's roots.
func (s *Study) fileFunction(dir string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := s.readText(dir, args[0].AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return cty.StringVal(text), nil
		},
	})
}

func (s *Study) readText(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if filepath.IsAbs(name) {
		return "", fmt.Errorf("%s is an absolute path; a study reads texts only from its own folder and those of the files it includes", name)
	}
	if text, ok := s.texts[path]; ok {
		return text, nil
	}
	for _, root := range s.roots {
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			continue
		}
		text, err := readBelow(root, rel)
		if err != nil {
			return "", err
		}
		s.texts[path] = text
		return text, nil
	}
	return "", fmt.Errorf("%s is outside the study; texts are read only from its own folder and those of the files it includes", name)
}

func readBelow(root, rel string) (string, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return "", err
	}
	defer r.Close()
	info, err := r.Stat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no file %s", filepath.Join(root, rel))
	}
	if err != nil {
		return "", fmt.Errorf("read text: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("read text: %s is not a regular file", rel)
	}
	f, err := r.Open(rel)
	if err != nil {
		return "", fmt.Errorf("read text: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTextFile+1))
	if err != nil {
		return "", fmt.Errorf("read text: %w", err)
	}
	if len(data) > maxTextFile {
		return "", fmt.Errorf("read text: %s is larger than %d bytes", rel, maxTextFile)
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("read text: %s is not valid UTF-8", rel)
	}
	return string(data), nil
}
