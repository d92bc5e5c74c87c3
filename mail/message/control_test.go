package message

import "testing"

func TestControl(t *testing.T) {
	for text, want := range map[string]string{
		"STOP": "STOP", "stop": "STOP", " Halt.\n": "HALT", "go!": "GO", "Status": "STATUS",
		"": "", "stop it": "", "STOP\nplease": "", "> STOP": "", "!": "", "GOSTOP": "",
	} {
		if got := Control(text); got != want {
			t.Errorf("Control(%q) = %q, want %q", text, got, want)
		}
	}
}
