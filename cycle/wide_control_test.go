package cycle_test

import "testing"

// TestControlInUTF16 halts by a mail in UTF-16 without a byte order mark.
func TestControlInUTF16(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{fields: "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-16\r\nContent-Transfer-Encoding: base64\r\n", body: "SABBAEwAVAANAAoA"})
	h.poll()
	if s := h.state(); !s.HaltedHere || len(h.runs()) != 0 {
		t.Errorf("halted %v, %d turns", s.HaltedHere, len(h.runs()))
	}
}
