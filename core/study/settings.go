package study

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
)

// Settings lists in what the training of two configurations differs, by path, B's values as the old ones. What one of
// them does not have is "".
func Settings(a, b *experiment.Run) ([]record.Change, error) {
	left, err := settings(a)
	if err != nil {
		return nil, err
	}
	right, err := settings(b)
	if err != nil {
		return nil, err
	}
	var changes []record.Change
	paths := slices.Sorted(maps.Keys(left))
	for path := range right {
		if _, ok := left[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		if left[path] != right[path] {
			changes = append(changes, record.Change{Name: path, Old: right[path], New: left[path]})
		}
	}
	return changes, nil
}

// settings are the leaves of a configuration's canonical form by path.
func settings(r *experiment.Run) (map[string]string, error) {
	data, err := r.Canonical()
	if err != nil {
		return nil, fmt.Errorf("settings of a run: %w", err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("settings of a run: %w", err)
	}
	all := map[string]string{}
	flatten(all, nil, tree)
	return all, nil
}

func flatten(all map[string]string, path []string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if key == "values" { // of a plugin
				flatten(all, path, inner)
				continue
			}
			flatten(all, append(slices.Clip(path), key), inner)
		}
	case []any:
		for i, inner := range v {
			key := strconv.Itoa(i)
			if named, ok := inner.(map[string]any); ok {
				if name, ok := named["name"].(string); ok {
					key = name
				}
			}
			flatten(all, append(slices.Clip(path), key), inner)
		}
	case nil:
		all[strings.Join(path, ".")] = "null"
	case string:
		all[strings.Join(path, ".")] = strconv.Quote(v)
	case float64:
		all[strings.Join(path, ".")] = strconv.FormatFloat(v, 'g', -1, 64)
	default:
		all[strings.Join(path, ".")] = fmt.Sprint(v)
	}
}
