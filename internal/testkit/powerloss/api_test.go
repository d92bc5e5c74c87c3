package powerloss

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/scripted"
)

// notches are the arguments of the calls that the model makes.
var notches = []string{`{"at":"left"}`, `{"at":"middle"}`, `{"at":"right"}`}

// priceOfAnswer is what one answer costs, in dollars: 100 tokens in and 20 out.
const priceOfAnswer = 100*2.5e-6 + 20*10e-6

const apiPart = `[turn]
runner = "api"
workdir = "work"
[api]
provider = "openai"
base_url = %q
model = "gpt-4o"
key_file = "api-key"
[tools.notch]
command = ["./notch.sh"]
description = "Cuts a notch."
schema = "notch.json"
`

// notchScript notes that it runs. Once, if there is a file kill-me, it ends every
// process of the program in the midst of it.
const notchScript = `#!/bin/sh
read args
echo "$(date +%%s%%6N) $args" >>%[1]q
case "$args" in
*middle*) rm %[3]q 2>/dev/null && for p in /proc/[0-9]*; do
	[ "$(readlink "$p/exe")" = %[2]q ] && kill -9 "${p#/proc/}"
done ;;
esac
echo cut
`

func setAPI(s *story) {
	model := scripted.EachOnce("notch", notches, "you said: cut three notches")
	server := &scripted.Server{Script: func(q scripted.Request) scripted.Reply {
		s.world.note(event{kind: used, text: string(q.Body)})
		return model(q)
	}}
	url, stop, err := server.Start()
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(stop)
	s.writeFile("api-key", scripted.Key)
	s.writeFile("notch.json", `{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}`)
	if err := os.Mkdir(filepath.Join(s.dir, "work"), 0o700); err != nil {
		s.Fatal(err)
	}
	if err := testkit.WriteProgram(filepath.Join(s.dir, "notch.sh"), fmt.Sprintf(notchScript, s.notes(), s.program, filepath.Join(s.dir, "kill-me"))); err != nil {
		s.Fatal(err)
	}
	s.writeFile("kill-me", "")
	s.configure(s.mailbox(), fmt.Sprintf(apiPart, url+"/v1"), uncronned)
}

// tellAPI: the built-in loop works on a mail, calls a tool three times, and is killed
// on the way, so that a second attempt goes on.
func tellAPI(s *story) {
	s.run("poll")
	s.world.deliver(s.T, letter(operator, "cut three notches"))
	s.killed("poll")
	s.run("poll")
	s.noted()
}

func holdAPI(c *crash) {
	c.poll()
	c.wantSound()
	c.wantAnswered()
	if len(c.had(mailed)) == 0 {
		return
	}
	asked := c.has(used)
	unknown := strings.Count(asked[len(asked)-1], "Unknown: the work was interrupted")
	cut := map[string]int{}
	for _, args := range c.had(did) {
		cut[args]++
	}
	for _, e := range c.collect() {
		cut[e.text]++
	}
	for _, args := range notches {
		n := cut[args]
		if n == 0 && unknown > 0 {
			unknown--
			continue
		}
		if n != 1 {
			c.Errorf("%s was cut %d times, want 1", args, n)
		}
	}
	var status struct {
		Spend struct {
			Day float64 `json:"day_usd"`
		}
	}
	if err := json.Unmarshal([]byte(c.run("status", "--json")), &status); err != nil {
		c.Errorf("%v", err)
	}
	// The answer on its way when the power went may be without a bill.
	if n := status.Spend.Day / priceOfAnswer; n > float64(len(asked))+0.01 || n < float64(len(asked))-1.01 {
		c.Errorf("%d answers are billed as %.2f", len(asked), n)
	}
}
