package mailtest

// T is the part of *testing.T and *testing.B that the helpers need. Because of this interface
// the demo does not link the testing package.
type T interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Fatal(args ...any)
	Skip(args ...any)
	Logf(format string, args ...any)
}

// StartMemory starts the servers in memory for one test.
func StartMemory(t T, options Options) *Servers {
	t.Helper()
	s, err := Start(t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
