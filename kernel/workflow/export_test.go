package workflow

// Validate is validate, without the graph.
func Validate(t *Template) error {
	_, err := validate(t)
	return err
}
