package setup

import "testing"

func TestLastingPath(t *testing.T) {
	got := lastingPath("/home/me/bin:.:/usr/bin:/home/me/bin::bin:/tmp/go-build1/b001:/opt/x")
	if want := "/home/me/bin:/usr/bin:/opt/x:/usr/local/bin:/bin"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
