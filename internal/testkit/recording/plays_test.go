package recording

import (
	"bytes"
	"encoding/base64"
	"os"
	"testing"
	"time"

	"agentstateloop/internal/testkit/browser"
)

// TestItPlays checks in Chromium that the recording plays as the image of a page, and is still for
// viewers who prefer reduced motion.
func TestItPlays(t *testing.T) {
	svg, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := browser.Start(t)
	moves := func(page string) bool {
		b.Show("<!doctype html>" + page)
		first := b.Picture()
		for range 20 {
			time.Sleep(100 * time.Millisecond) // a part of the recording
			if !bytes.Equal(first, b.Picture()) {
				return true
			}
		}
		return false
	}
	if !moves(`<img alt="" src="data:image/svg+xml;base64,` + base64.StdEncoding.EncodeToString(svg) + `" width="340">`) {
		t.Error("the recording does not play in an image")
	}
	// The emulation ends at the page: it does not reach the images in it.
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
	if moves(string(svg)) {
		t.Error("the recording plays for a viewer who prefers reduced motion")
	}
	if len(b.Console) > 0 {
		t.Errorf("Chromium prints %q", b.Console)
	}
}
