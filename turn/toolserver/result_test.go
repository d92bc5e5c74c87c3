package toolserver_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/secret"
	"agentstateloop/turn/react"
	"agentstateloop/turn/toolserver"
)

// TestContentOfResults checks the text for the model of each kind of content.
func TestContentOfResults(t *testing.T) {
	secrets := &secret.Known{}
	secrets.Learn("test", token)
	s := toolserver.Server{Name: "s", Secrets: secrets}
	for text, want := range map[string]string{
		`{"content":[]}`: "(empty)",
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`:                                                    "a\nb",
		`{"content":[{"type":"text","text":"{\"n\": 1}"}],"structuredContent":{"n":1}}`:                                          `{"n": 1}`,
		`{"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}}`:                                                 "one\n{\"n\":1}",
		`{"content":[],"structuredContent":[1,2]}`:                                                                               `[1,2]`,
		`{"content":[{"type":"text","text":"no"}],"isError":true}`:                                                               "error: no",
		`{"content":[],"isError":true}`:                                                                                          "error: the tool failed without a reason",
		`{"content":[{"type":"audio","data":"aGVsbG8=","mimeType":"audio/wav"}]}`:                                                "[audio (audio/wav, 5 bytes) not played]",
		`{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]}`:                                                "[image (image/png, 5 bytes) not shown: images are not supported here]",
		`{"content":[{"type":"resource_link","uri":"file:///x","name":"x","description":"an\u0007 x","mimeType":"text/plain"}]}`: "[resource of the server, for use with its tools: x, an x, text/plain, file:///x]",
		`{"content":[{"type":"resource","resource":{"uri":"file:///x","text":"inside"}}]}`:                                       "[resource file:///x:]\ninside",
		`{"content":[{"type":"resource","resource":{"uri":"file:///x","blob":"aGVsbG8=","mimeType":"a/b"}}]}`:                    "[resource file:///x (a/b, 5 bytes) not shown: not a text]",
		`{"content":[{"type":"text","text":"it is hunter2-hunter2"}]}`:                                                           "it is ***",
		`{"content":[{"type":"text","text":"no: hunter2-hunter2"}],"isError":true}`:                                              "error: no: ***",
	} {
		got, err := toolserver.ReadResult([]byte(text), s)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestPictures checks that a picture is kept and shown, with the text next to it, and the number of kept
// pictures.
func TestPictures(t *testing.T) {
	const png = "\x89PNG\r\n\x1a\n0000"
	folder := func() string {
		dir := t.TempDir()
		t.Cleanup(func() { osfile.MakeWritable(dir) }) // only root removes files from a read-only folder
		return dir
	}
	folders := react.Folders{Context: folder()}
	kept := 0
	s := toolserver.Server{Name: "s", Keep: func(name string, data []byte) (react.ShownFile, error) {
		kept++
		return folders.SavePicture(name, data)
	}}
	picture := `{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString([]byte(png)) + `"}`
	other := `{"type":"image","mimeType":"image/svg","data":"PHN2Zz4="}`
	_, err := toolserver.ReadResult([]byte(`{"content":[{"type":"text","text":"look"},`+picture+`,`+other+`]}`), s)
	var showing react.FilesResult
	if !errors.As(err, &showing) || len(showing.Files) != 1 || showing.Files[0].Name != "tool-results/s__tool-1.png" || showing.Files[0].Type != "image/png" {
		t.Fatalf("%+v", err)
	}
	if !strings.HasPrefix(showing.Text, "look\n[image (image/svg, 5 bytes) not shown: only PNG") {
		t.Errorf("the text: %q", showing.Text)
	}
	_, err = toolserver.ReadResult([]byte(`{"content":[{"type":"text","text":"no"},`+picture+`],"isError":true}`), toolserver.Server{Name: "t", Keep: folders.SavePicture})
	if err == nil || errors.As(err, new(react.FilesResult)) || err.Error() != "no" {
		t.Errorf("an error with a picture: %v", err)
	}
	if _, err := folders.SavePicture("s__tool-1", []byte(png)); err == nil {
		t.Error("a picture was replaced")
	}
	folders.Context, kept = folder(), 0
	_, err = toolserver.ReadResult([]byte(`{"content":[`+strings.Repeat(picture+",", 30)+picture+`]}`), s)
	if !errors.As(err, &showing) || len(showing.Files) != 20 || kept != 20 {
		t.Errorf("of 31 pictures %d were kept: %v", kept, err)
	}
}

// FuzzResult checks that each result has a text or an error of a bounded size.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"x"}}],"structuredContent":{"n":1},"isError":true}`))
	f.Add([]byte(`{"content":[{"type":"resource"},{"type":"image"},{"type":"audio","data":"x"},{"type":"tool_use"},{"type":"tool_result","content":[null]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := toolserver.ReadResult(text, toolserver.Server{Name: "s"})
		if err != nil {
			got = err.Error()
		}
		if len(got) > 66<<10+len(text)/1000 || err == nil && (got == "" || !utf8.ValidString(got)) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}

// FuzzSchema checks that a schema is one that providers accept, or an error.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"string","pattern":"("}},"oneOf":[{}]}`))
	f.Add([]byte(`{"type":["object"],"properties":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := toolserver.CleanSchema(text)
		if err != nil {
			return
		}
		var schema map[string]any
		if err := json.Unmarshal(got, &schema); err != nil {
			t.Fatal(err)
		}
		if _, ok := schema["properties"].(map[string]any); !ok || schema["type"] != "object" || schema["oneOf"] != nil || len(got) > 32<<10 {
			t.Errorf("%s becomes %s", text, got)
		}
	})
}
