package toolserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/turn/box"
	"agentstateloop/turn/toolserver"
)

// TestMain makes this test binary stand in for our own program, which makes sandboxes, and for the
// servers that it runs in them.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3:])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "start-and-wait" {
		startServerAndWait(os.Args[2])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == box.Stage {
		err := box.Main(os.Args[2:])
		if exit, ok := errors.AsType[box.Exit](err); ok {
			os.Exit(int(exit))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("OURS_ALONE", "hidden from servers")
	flag.Set("test.parallel", "8") // most of these tests wait
	os.Exit(m.Run())
}

// startServerAndWait starts a server with a mark in its command line, prints "started", and waits to
// be killed.
func startServerAndWait(mark string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	way, err := box.Find(context.Background(), self)
	if err != nil {
		panic(err)
	}
	if _, err := toolserver.Start(context.Background(), serverIn("lingers", self, way, mark)); err != nil {
		panic(err)
	}
	fmt.Println("started")
	select {}
}

// serverIn returns a server in a mode, with more arguments, in its sandbox.
func serverIn(mode, self string, way box.Way, more ...string) toolserver.Server {
	return toolserver.Server{
		Name: "bad", Command: append([]string{self, "serve", mode}, more...), Timeout: 5 * time.Minute, Version: "test", Way: way,
		Env: []string{"PATH=/usr/bin:/bin"}, Box: box.Box{Self: self, Read: []string{filepath.Dir(self)}},
	}
}

// request is a request to a server.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

// answer prints the answer to a request.
func (r request) answer(result string) {
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.ID, result)
}

func text(s string) string {
	quoted, _ := json.Marshal(s)
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted)
}

// tools returns a list of tools that take any object.
func tools(names ...string) string {
	var all []string
	for _, name := range names {
		quoted, _ := json.Marshal(name)
		all = append(all, fmt.Sprintf(`{"name":%s,"description":"does %s","inputSchema":{"type":"object"}}`, quoted, "it"))
	}
	return `{"tools":[` + strings.Join(all, ",") + `]}`
}

const greeting = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bad","version":"1"}}`

// serve is a server whose mode may change its behaviour. Its tools are named after their behaviour.
func serve(mode string, args []string) {
	fmt.Fprintln(os.Stderr, "serving", mode)
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		var r request
		if json.Unmarshal(scanner.Bytes(), &r) != nil || r.ID == nil {
			continue
		}
		if bad := behaviours[mode+" "+r.Method]; bad != nil {
			bad(r)
		}
		switch r.Method {
		case "initialize":
			r.answer(greeting)
		case "tools/list":
			r.answer(tools("echo", "die", "hang", "flood", "requests", "notify", "huge", "garbage", "error", "refuse", "silent", "deep", "child", "see", "env"))
		case "tools/call":
			runTool(r)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`+"\n", r.ID)
		}
	}
	if mode == "lingers" {
		time.Sleep(time.Hour)
	}
}

func forever(print func()) func(request) {
	return func(request) {
		for {
			print()
		}
	}
}

func hangForever(request) { time.Sleep(time.Hour) }

func die(request) {
	fmt.Fprintln(os.Stderr, "I cannot go on: hunter2-hunter2")
	os.Exit(3)
}

// behaviours are functions of a mode and a method, which run before the usual answer to a request.
var behaviours = map[string]func(request){
	"hang-at-start initialize":  hangForever,
	"die-at-start initialize":   die,
	"flood-at-start initialize": forever(func() { fmt.Print(strings.Repeat("x", 64<<10)) }),
	"hang-at-list tools/list":   hangForever,
	"die-at-list tools/list":    die,
	"errs-at-start initialize":  forever(func() { fmt.Fprintln(os.Stderr, "again and again") }),
	"banner initialize":         func(request) { fmt.Println("Welcome to the server!\n\n[1,2]\n{\"half\":") },
	"odd-list tools/list": func(r request) {
		r.answer(strings.ReplaceAll(`{"tools":[null,{"name":"b","inputSchema":{"type":"object"}},{"name":"a","description":"first \u001b[31m`+strings.Repeat("long ", 10000)+`","inputSchema":{"type":"object","properties":{"p":{"type":"string","pattern":"^(?!x)","description":"\u0007bell"}},"anyOf":[{"required":["p"]}]}},
			{"name":"a","description":"again","inputSchema":{"type":"object"}},{"name":"array","inputSchema":{"type":"array"}},{"name":"none"},{"name":"text","inputSchema":"x"},
			{"name":"","inputSchema":{"type":"object"}},{"name":"bad\u202ename","inputSchema":{"type":"object"}},{"name":"hunter2-hunter2","inputSchema":{"type":"object"}},
			{"name":"spaced name","inputSchema":{"type":"object"}},{"name":"blank property","inputSchema":{"type":"object","properties":{"a b":{}}}},
			{"name":"ref","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/nowhere"}}}},{"name":"deep","inputSchema":`+strings.Repeat(`{"type":"object","properties":{"a":`, 40)+`{}`+strings.Repeat(`}}`, 40)+`},
			{"name":"large","inputSchema":{"type":"object","enum":[],"properties":{"x":{"default":"`+strings.Repeat("x", 40<<10)+`"}}}},{"name":"tells","description":"the token is hunter2-hunter2","inputSchema":{"type":"object","title":"hunter2-hunter2"}}]}`, "\n", " "))
	},
	"twins tools/list": func(r request) {
		r.answer(tools("b c", strings.TrimPrefix(toolserver.ModelName("bad", "b c"), "bad__")))
	},
	"shuffled tools/list": func(r request) { r.answer(tools("b", "c", "a")) },
}

// runTool runs a tool by its name.
func runTool(r request) {
	switch r.Params.Name {
	case "echo":
		r.answer(text(string(r.Params.Arguments)))
	case "die":
		die(r)
	case "hang":
		if len(r.Params.Arguments) > 2 { // once
			return
		}
		hangForever(r)
	case "silent": // the server runs on without an answer
	case "flood":
		line := strings.Repeat("x", 100_000)
		forever(func() { fmt.Println(line) })(r)
	case "requests":
		forever(func() { fmt.Println(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) })(r)
	case "notify":
		for range 2_000 {
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		fmt.Println(`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
		fmt.Println(`{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		r.answer(text("notified"))
	case "huge":
		r.answer(text(strings.Repeat("huge ", 1<<20)))
	case "garbage":
		r.answer(`{"content":[{"type":"alien"},7,null],"structuredContent":[]}`)
	case "deep":
		r.answer(`{"content":[],"structuredContent":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`)
	case "error":
		r.answer(`{"content":[{"type":"text","text":"the disk is full: hunter2-hunter2"}],"isError":true}`)
	case "refuse":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad arguments, hunter2-hunter2"}}`+"\n", r.ID)
	case "child":
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done"}, &os.ProcAttr{})
		r.answer(text(fmt.Sprint(p != nil, err)))
	case "see":
		var a struct{ Path string }
		_ = json.Unmarshal(r.Params.Arguments, &a)
		data, err := os.ReadFile(a.Path)
		r.answer(text(fmt.Sprintf("%s %v", data, err)))
	case "env":
		names := map[string]bool{}
		for _, kv := range os.Environ() {
			name, _, _ := strings.Cut(kv, "=")
			names[name] = true
		}
		r.answer(text(strings.Join(slices.Sorted(maps.Keys(names)), " ") + " " + os.Getenv("API_KEY")))
	}
}

// local returns a server in a mode, in its sandbox.
func local(t testing.TB, mode string) toolserver.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	way, err := box.Find(t.Context(), self)
	if err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	secrets := &secret.Known{}
	secrets.Learn("test", "hunter2-hunter2")
	s := serverIn(mode, self, way)
	s.Secrets = secrets
	return s
}

// start starts a server, and returns a function that calls its tools by their names.
func start(t testing.TB, s toolserver.Server) (*toolserver.Session, func(tool, args string) (string, error)) {
	t.Helper()
	session, err := toolserver.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	offered, _ := session.Tools(all)
	return session, func(name, args string) (string, error) {
		t.Helper()
		for _, tool := range offered {
			if tool.Title == s.Name+"/"+name {
				return tool.Run(t.Context(), json.RawMessage(args))
			}
		}
		t.Fatalf("%s is not offered", name)
		return "", nil
	}
}
