package recording

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/demo.svg")

// file is the recording in the README.
const file = "../../../docs/demo.svg"

// TestTheRecordingIsTheDemo runs the demo of the real program, and compares its recording with
// the one in the README.
func TestTheRecordingIsTheDemo(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agentstateloop")
	if out, err := exec.Command("go", "build", "-o", program, "../../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	story, err := exec.Command(program, "demo").Output()
	if err != nil {
		t.Fatal(err)
	}
	drawn := SVG("agentstateloop demo", string(story))
	if *update {
		if err := os.WriteFile(file, drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(drawn, kept) {
		t.Error("docs/demo.svg is not the recording of this demo: run go test ./internal/testkit/recording -update")
	}
	checkText(t, drawn, string(story))
}

// checkText checks that the recording is XML, small, and has every word of the demo in its order.
func checkText(t *testing.T, svg []byte, story string) {
	t.Helper()
	if len(svg) > 60_000 {
		t.Errorf("the recording has %d bytes, at most 60,000", len(svg))
	}
	var shown strings.Builder
	inText := false
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
			if token.Name.Local == "script" || token.Name.Local == "foreignObject" || token.Name.Local == "image" {
				t.Errorf("the recording has the element %s, which GitHub does not show", token.Name.Local)
			}
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				shown.Write(token)
			}
		}
	}
	if want := strings.Join(strings.Fields(story), ""); !strings.Contains(strings.Join(strings.Fields(shown.String()), ""), want) {
		t.Error("the recording does not show the words of the demo in their order")
	}
}
