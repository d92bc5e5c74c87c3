package react_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// Sample files as written by real programs.
var (
	samplePNG  = encodeImage(func(b *bytes.Buffer, m image.Image) error { return png.Encode(b, m) })
	sampleJPEG = encodeImage(func(b *bytes.Buffer, m image.Image) error { return jpeg.Encode(b, m, nil) })
	sampleGIF  = encodeImage(func(b *bytes.Buffer, m image.Image) error { return gif.Encode(b, m, nil) })
	sampleWebP = []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")
	samplePDF  = []byte("%PDF-1.4\n1 0 obj<</Type/Pages/Count 2>>endobj\n2 0 obj<</Type /Page>>endobj\n3 0 obj<</Type/Page>>endobj\n%%EOF\n")
)

func encodeImage(encode func(*bytes.Buffer, image.Image) error) []byte {
	var b bytes.Buffer
	if err := encode(&b, image.NewRGBA(image.Rect(0, 0, 3, 2))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// addFiles gives the loop folders with these files, by name below its context folder.
func (b *fixture) addFiles(added map[string][]byte, sees ...string) {
	b.t.Helper()
	r, _ := folders(b.t)
	for name, data := range added {
		place := filepath.Join(r.Context, name)
		if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
			b.t.Fatal(err)
		}
		write(b.t, place, string(data))
	}
	b.Tools = append(notches(&b.notched), files(b.t, r)...)
	b.Images = &react.Images{Folders: r, Sees: func(model string) []string {
		if model == "low" {
			return nil
		}
		return sees
	}}
}

// request returns request number n, from 0, and checks all of them.
func (b *fixture) request(n int) scripted.Request {
	b.t.Helper()
	b.checkRequests()
	return b.asked(n)
}

// Pictures and PDFs that came with the message are shown with it, whatever their names and
// types claim, and each other picture is named with the reason. The steps hold no bytes.
func TestMessageFilesAreShown(t *testing.T) {
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			b := newFixture(t, api, scripted.Reply{Text: "I see."})
			sees := []string{react.Image, react.PDF}
			if api == "openai" {
				sees = sees[:1]
			}
			b.addFiles(map[string][]byte{
				"attachments/1.png": samplePNG, "attachments/2.txt": sampleJPEG, "attachments/3.gif": sampleGIF, "attachments/4.webp": sampleWebP,
				"attachments/5.pdf": samplePDF, "attachments/6.png": []byte("no picture"), "attachments/7.heic": []byte("\x00\x00\x00\x18ftypheic"),
				"attachments/8.csv": []byte("a,b"), "attachments/9.png": append(bytes.Clone(samplePNG), make([]byte, 4<<20)...),
				"earlier/1/attachments/0.png": samplePNG, "message.eml": samplePNG,
			}, sees...)
			if err := b.run("What is this?", true); err != nil {
				t.Fatal(err)
			}
			m := b.request(0).Last()
			want := [][]byte{samplePNG, sampleJPEG, sampleGIF, sampleWebP, samplePDF, samplePNG}
			types := []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "image/png"}
			if api == "openai" {
				want, types = append(want[:4:4], samplePNG), append(types[:4:4], "image/png")
			}
			if len(m.Shown) != len(want) {
				t.Fatalf("%d files are shown, want %d: %s", len(m.Shown), len(want), m.Text)
			}
			for i, s := range m.Shown {
				if s.Type != types[i] || !bytes.Equal(s.Data, want[i]) {
					t.Errorf("%d: %s, %d bytes", i, s.Type, len(s.Data))
				}
			}
			for _, says := range []string{
				"attachments/1.png (image/png):", "earlier/1/attachments/0.png (image/png):", "What is this?", "files are shown above: attachments/1.png, attachments/2.txt",
				"words of the sender", "attachments/7.heic: only PNG", "attachments/9.png: it exceeds",
			} {
				if !strings.Contains(m.Text, says) {
					t.Errorf("the model is not told %q:\n%s", says, m.Text)
				}
			}
			if api == "openai" != strings.Contains(m.Text, "attachments/5.pdf: usual is not known to support") || strings.Contains(m.Text, "8.csv") || strings.Contains(m.Text, "attachments/6.png:") {
				t.Errorf("the model is told:\n%s", m.Text)
			}
			steps, err := os.ReadFile(filepath.Join(b.turn, "1", "steps.jsonl"))
			if err != nil || len(steps) > 8000 || bytes.Contains(steps, []byte(base64.StdEncoding.EncodeToString(samplePNG)[:30])) {
				t.Errorf("the steps have %d bytes: %v", len(steps), err)
			}
		})
	}
}

// The wire is what the APIs document.
func TestFilesOnWire(t *testing.T) {
	for api, want := range map[string][]string{
		"anthropic": {
			`{"type":"text","text":"attachments/a.png (image/png):"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}}`,
			`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"%s"}}`,
		},
		"openai": {`[{"type":"text","text":"attachments/a.png (image/png):"},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}},{"type":"text","text":"look`},
	} {
		b := newFixture(t, api, scripted.Reply{Text: "I see."})
		b.addFiles(map[string][]byte{"attachments/a.png": samplePNG, "attachments/b.pdf": samplePDF}, react.Image, map[string]string{"anthropic": react.PDF}[api])
		if err := b.run("look", true); err != nil {
			t.Fatal(err)
		}
		body := string(b.request(0).Body)
		for i, data := range [][]byte{samplePNG, samplePDF}[:len(want)] {
			if part := fmt.Sprintf(want[i], base64.StdEncoding.EncodeToString(data)); !strings.Contains(body, part) {
				t.Errorf("%s: want %s in\n%s", api, part, body)
			}
		}
	}
}

// A provider that refuses the request with pictures is asked once more without them, and the
// turn goes on. So does the attempt after it.
func TestRefusedImageIsDropped(t *testing.T) {
	for _, api := range apis {
		for status, fault := range map[int]string{400: "Could not process image", 404: "No endpoints found that support image input", 413: "request too large", 422: "unknown part"} {
			b := newFixture(t, api, scripted.Reply{Status: status, Fault: fault}, scripted.Reply{Text: "Without it."})
			b.addFiles(map[string][]byte{"attachments/a.png": samplePNG}, react.Image)
			if err := b.run("look", true); err != nil {
				t.Fatalf("%s, %d: %v", api, status, err)
			}
			first, second := b.request(0).Last(), b.request(1).Last()
			if len(first.Shown) != 1 || len(second.Shown) != 0 || !strings.Contains(second.Text, "refused a request with them: "+fmt.Sprint(status)) || b.done().Failed {
				t.Errorf("%s, %d: %d, then %d shown: %s", api, status, len(first.Shown), len(second.Shown), second.Text)
			}
		}
		b := newFixture(t, api, scripted.Reply{Status: 400, Fault: "you are wrong"}, scripted.Reply{Status: 400, Fault: "you are wrong"})
		b.addFiles(map[string][]byte{"attachments/a.png": samplePNG}, react.Image)
		if err := b.run("look", true); err == nil || len(b.server.Asked()) != 2 {
			t.Errorf("%s: %v after %d requests: want a failure after two", api, err, len(b.server.Asked()))
		}
	}
}

// read_file shows a picture of any folder, in the message that holds the result. One that the
// model cannot see is an error that says so, and one that was changed is not shown again.
func TestReadFileShowsImage(t *testing.T) {
	for _, api := range apis {
		for _, sees := range []string{react.Image, ""} {
			b := newFixture(t, api,
				scripted.Reply{Calls: []scripted.Call{{ID: "c1", Name: "read_file", Args: `{"path":"plot.png"}`}, {ID: "c2", Name: "notch", Args: `{"at":"1"}`}}},
				scripted.Reply{Calls: []scripted.Call{{ID: "c3", Name: "notch", Args: `{"at":"2"}`}}},
				scripted.Reply{Text: "Seen."})
			b.addFiles(nil, sees)
			plot := filepath.Join(b.Images.Folders.Workdir, "plot.png")
			write(t, plot, string(samplePNG))
			script := b.server.Script
			b.server.Script = func(q scripted.Request) scripted.Reply {
				if q.Number == 2 {
					if err := os.WriteFile(plot, sampleGIF, 0o600); err != nil {
						t.Error(err)
					}
				}
				return script(q)
			}
			if err := b.run("plot it", true); err != nil {
				t.Fatal(err)
			}
			var shown []scripted.Shown
			for _, m := range b.request(1).Messages {
				shown = append(shown, m.Shown...)
			}
			if sees == "" {
				if said := string(b.request(1).Body); len(shown) != 0 || !strings.Contains(said, "which you cannot see") {
					t.Errorf("%s: %d shown: %s", api, len(shown), said)
				}
				continue
			}
			if len(shown) != 1 || !bytes.Equal(shown[0].Data, samplePNG) {
				t.Errorf("%s: %d shown", api, len(shown))
			}
			if later := string(b.request(2).Body); !strings.Contains(later, "plot.png is not shown now: it has changed") {
				t.Errorf("%s: after the change the model is told %s", api, later)
			}
		}
	}
}

// A retry shows what the attempt before did, from its own context folder; a file that is not
// there any more is named. The cheaper model that cannot see is told so.
func TestShownFilesAfterRetry(t *testing.T) {
	for _, api := range apis {
		b := newFixture(t, api, scripted.Reply{Calls: []scripted.Call{{ID: "c1", Name: "notch", Args: `{"at":"1"}`}}}, scripted.Reply{Status: 401, Fault: "no"}, scripted.Reply{Text: "Done."})
		b.addFiles(map[string][]byte{"attachments/a.png": samplePNG, "attachments/b.gif": sampleGIF}, react.Image)
		if err := b.run("look", true); err == nil {
			t.Fatal("the first attempt did not fail")
		}
		b.addFiles(map[string][]byte{"attachments/a.png": samplePNG}, react.Image)
		if err := b.run("look", true); err != nil {
			t.Fatal(err)
		}
		if m := b.request(2).Messages[0]; len(m.Shown) != 1 || !strings.Contains(m.Text, "attachments/b.gif is not shown now: it cannot be read") {
			t.Errorf("%s: %d shown: %s", api, len(m.Shown), m.Text)
		}
		b.outlook = react.CheckResult{Low: true}
		if err := b.run("and now?", false); err != nil {
			t.Fatal(err)
		}
		if m := b.request(3).Messages[0]; len(m.Shown) != 0 || !strings.Contains(m.Text, "attachments/a.png is not shown now: this model cannot see it") {
			t.Errorf("%s: %d shown to the cheaper model: %s", api, len(m.Shown), m.Text)
		}
	}
}

// What is shown counts towards the window and the cost by what it takes there, and not by
// its bytes.
func TestShownFilesCountAsTokens(t *testing.T) {
	b := newFixture(t, "anthropic", scripted.Reply{Text: "I see.", In: -1, Out: 5})
	b.addFiles(map[string][]byte{"attachments/a.png": append(bytes.Clone(samplePNG), make([]byte, 3<<20)...)}, react.Image)
	if err := b.run("look", true); err != nil {
		t.Fatal(err)
	}
	if in := b.spent[0].Usage.Input; in < 1600 || in > 2500 {
		t.Errorf("%d tokens are counted for one picture", in)
	}

	full := newFixture(t, "anthropic", scripted.Reply{Text: "a summary"}, scripted.Reply{Text: "Done."})
	full.Window, full.MaxOutput = 10_000, 100
	files := map[string][]byte{}
	for i := range 8 {
		files[fmt.Sprintf("attachments/%d.png", i)] = samplePNG
	}
	full.addFiles(files, react.Image)
	if err := full.run("look", true); err != nil {
		t.Fatal(err)
	}
	if m := full.request(1).Last(); len(m.Shown) != 0 || !strings.Contains(m.Text, "no longer visible. Use read_file to see one again") {
		t.Errorf("after the summary %d files are shown: %s", len(m.Shown), m.Text)
	}
	for _, e := range full.events {
		if e.Kind == turn.Error {
			t.Errorf("%+v", e)
		}
	}
}

// Of very many files as many are shown as a request takes.
func TestShownFilesAreBounded(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "anthropic", scripted.Reply{Text: "I see."})
	files := map[string][]byte{}
	for i := range 25 {
		files[fmt.Sprintf("attachments/%02d.png", i)] = append(bytes.Clone(samplePNG), make([]byte, 2<<20)...)
	}
	files["attachments/long.pdf"] = append(bytes.Clone(samplePDF), bytes.Repeat([]byte("4 0 obj<</Type/Page>>endobj\n"), 200)...)
	b.addFiles(files, react.Image, react.PDF)
	b.Window = 1_000_000
	if err := b.run("look", true); err != nil {
		t.Fatal(err)
	}
	m := b.request(0).Last()
	if n := len(m.Shown); n != 9 {
		t.Errorf("%d files of 2 MiB are shown", n)
	}
	if !strings.Contains(m.Text, "attachments/12.png: all files together exceed 20 MiB") || !strings.Contains(m.Text, "long.pdf: it has about 202 pages") {
		t.Errorf("the model is told:\n%s", m.Text)
	}
}
