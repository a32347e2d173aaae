package fs

func playReader(string) error { return nil }
