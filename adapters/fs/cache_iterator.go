package fs

// mergeIterator iterates over several sorted sources at once. If several have a
// key, the value of the latest source counts.
type mergeIterator struct{ sources []source }

// source yields keys in order; "" is the end.
type source interface {
	key() string
	value() []byte
	forward() error
}

// iterate is an iterator at the first key that is not below from. It may end
// behind the keys of prefix, which from is one of.
func (k *kv) iterate(from, prefix string) *mergeIterator {
	m := &mergeIterator{}
	for _, t := range k.tables {
		m.sources = append(m.sources, t.seek(from, prefix))
	}
	m.sources = append(m.sources, k.memtable.seek(from))
	return m
}

func (m *mergeIterator) next() (string, []byte, error) {
	least := ""
	var value []byte
	for _, s := range m.sources {
		if c, ok := s.(*tableCursor); ok && c.err != nil {
			return "", nil, c.err
		}
		if key := s.key(); key != "" && (least == "" || key <= least) {
			least, value = key, s.value()
		}
	}
	if least == "" {
		return "", nil, nil
	}
	for _, s := range m.sources {
		if s.key() == least {
			if err := s.forward(); err != nil {
				return "", nil, err
			}
		}
	}
	return least, value, nil
}
