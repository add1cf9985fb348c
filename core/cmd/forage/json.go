package main

import (
	"encoding/json"
	"fmt"
)

// writeJSON prints a value as indented JSON.
func (a *app) writeJSON(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", data)
	return err
}

// jsonLine is a value as one line of JSON.
func jsonLine(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return append(data, '\n'), err
}

// compactJSON is a value for people to read in a line.
func compactJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
