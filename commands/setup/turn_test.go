package setup

import "testing"

// TestPermanentPathOfPATH checks that relative, repeated and temporary folders are removed.
func TestPermanentPathOfPATH(t *testing.T) {
	got := permanentPath("/home/me/bin:.:/usr/bin:/home/me/bin::bin:/tmp/go-build1/b001:/opt/x")
	if want := "/home/me/bin:/usr/bin:/opt/x:/usr/local/bin:/bin"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
