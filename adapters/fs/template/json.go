package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// maxDepth bounds the levels of nesting. A template needs six.
const maxDepth = 64

type jsonReader struct {
	dec   *json.Decoder
	data  []byte
	file  string
	at    int // offset up to which lines are counted
	lines int
}

func parseJSON(file string, data []byte) (workflow.Value, error) {
	r := &jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, file: file, lines: 1}
	r.dec.UseNumber()
	v, err := r.value(0)
	if err == nil {
		if _, more := r.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the template")
		}
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return v, syntax("JSON", file, r.pos().Line, err.Error())
	}
	return v, nil
}

// pos returns the position of the token that was read last.
func (r *jsonReader) pos() workflow.Pos {
	end := int(r.dec.InputOffset())
	r.lines += bytes.Count(r.data[r.at:end], []byte{'\n'})
	r.at = end
	return workflow.Pos{File: r.file, Line: r.lines}
}

func (r *jsonReader) value(depth int) (workflow.Value, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return workflow.Value{}, err
	}
	v := workflow.Value{Pos: r.pos()}
	if depth > maxDepth {
		return v, fmt.Errorf("more than %d levels of nesting", maxDepth)
	}
	switch t := tok.(type) {
	case string:
		v.Kind, v.Text = workflow.String, t
	case bool:
		v.Kind, v.Text = workflow.Bool, fmt.Sprint(t)
	case json.Number:
		v.Kind, v.Text = workflow.Int, t.String()
		if strings.ContainsAny(v.Text, ".eE") {
			v.Kind = workflow.Float
		}
	case json.Delim:
		if t == '[' {
			v.Kind = workflow.List
			for r.dec.More() {
				e, err := r.value(depth + 1)
				if err != nil {
					return v, err
				}
				v.List = append(v.List, e)
			}
		} else {
			v.Kind = workflow.Table
			for r.dec.More() {
				f, err := r.field(depth)
				if err != nil {
					return v, err
				}
				v.Fields = append(v.Fields, f)
			}
		}
		_, err = r.dec.Token()
	}
	return v, err
}

func (r *jsonReader) field(depth int) (workflow.Field, error) {
	key, err := r.dec.Token()
	if err != nil {
		return workflow.Field{}, err
	}
	name, ok := key.(string)
	if !ok {
		return workflow.Field{}, errors.New("a key must be a string")
	}
	f := workflow.Field{Key: name, Pos: r.pos()}
	f.Value, err = r.value(depth + 1)
	return f, err
}
