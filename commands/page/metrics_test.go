package page

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
)

// promtoolPath returns the real promtool. Without it the test is skipped, or fails where real programs
// are required.
func promtoolPath(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal("promtool is required: it is in the package prometheus of Debian")
		}
		t.Skip("promtool is not installed")
	}
	return program
}

// promtool has promtool check metrics.
func promtool(t *testing.T, metrics string) {
	t.Helper()
	cmd := exec.Command(promtoolPath(t), "check", "metrics")
	cmd.Stdin = strings.NewReader(metrics)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v: %s\n%s", err, out, metrics)
	}
}

func metricsOf(t *testing.T, now time.Time, agents ...*cycle.Agent) string {
	t.Helper()
	var from []Source
	for _, a := range agents {
		from = append(from, Source{Agent: a})
	}
	var out bytes.Buffer
	if err := Metrics(&out, from, "v1.0.0", now); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestMetrics has the metrics of an agent in trouble, of one whose state cannot be read, of one that
// never polled, and of those with a hostile handle, and another agent's handle.
func TestMetrics(t *testing.T) {
	s, broken := newStage(t), newStage(t)
	ctx := context.Background()
	s.receive(operator, "@goulard3120 deploy", "Please deploy.")
	s.receive(operator, "@goulard3120 away\r\nAuto-Submitted: auto-replied", "I am on holiday.")
	_, err := s.agent.Halt(ctx, "lunch\n# TYPE x counter")
	s.check(err)
	broken.check(os.WriteFile(broken.agent.Store.Path("state.json"), []byte(`{"version": 99}`), 0o600))
	broken.agent.Handle = "broken"
	hostile, twin := newStage(t), newStage(t)
	hostile.agent.Handle = "a\"} 1\nx{b=\"\\\x1b\u202e\xff"

	got := metricsOf(t, s.now, s.agent, broken.agent, hostile.agent, twin.agent, s.agent)
	promtool(t, got)
	for _, want := range []string{
		"# HELP agentstateloop_up Whether the state of the agent can be read.\n# TYPE agentstateloop_up gauge\n",
		`agentstateloop_build_info{version="v1.0.0"} 1`,
		`agentstateloop_up{agent="goulard3120"} 1`, `agentstateloop_up{agent="broken"} 0`,
		`agentstateloop_up{agent="a\"} 1 x{b=\"\\ ` + "\uFFFD\uFFFD" + `"} 1`,
		`agentstateloop_up{agent="goulard3120 ` + twin.agent.Store.Dir + `"} 1`,
		`agentstateloop_phase{agent="goulard3120",phase="IDLE"} 0`, `agentstateloop_phase{agent="goulard3120",phase="PREP"} 1`,
		`agentstateloop_phase_start_timestamp_seconds{agent="goulard3120"} 1772442000`,
		`agentstateloop_halted{agent="goulard3120"} 1`, `agentstateloop_trouble{agent="goulard3120",kind="halted"} 1`, `agentstateloop_trouble{agent="goulard3120",kind="trust"} 1`,
		`agentstateloop_inbox_messages{agent="goulard3120",state="waiting"} 1`, `agentstateloop_inbox_messages{agent="goulard3120",state="quarantined"} 1`,
		`agentstateloop_messages_total{agent="goulard3120"} 1`, `agentstateloop_quarantined_total{agent="goulard3120"} 1`,
		`agentstateloop_inbox_oldest_timestamp_seconds{agent="goulard3120"} 1772442000`,
		`agentstateloop_budget_left_dollars{agent="goulard3120"} 5`, `agentstateloop_cost_dollars_total{agent="goulard3120"} 0`,
		`agentstateloop_turn{agent="goulard3120",status="idle"} 1`, `agentstateloop_tier{agent="goulard3120",tier="normal"} 1`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, `_phase{agent="broken"`) || strings.Contains(got, "lunch") || strings.Contains(got, `"goulard3120 `+s.agent.Store.Dir) {
		t.Errorf("the metrics have too much:\n%s", got)
	}
	promtool(t, metricsOf(t, s.now)) // without an agent
}

// TestCountersOnlyRise compares the counters before and after a day of events, and after the inbox was
// emptied.
func TestCountersOnlyRise(t *testing.T) {
	s := newStage(t)
	before := counters(t, s)
	s.receive(operator, "@goulard3120 one", "One.")
	s.receive(operator, "@goulard3120 away\r\nAuto-Submitted: auto-replied", "Two.")
	m, err := s.agent.Next(context.Background())
	s.check(err)
	s.check(s.agent.Done(context.Background(), cycle.Inside{TurnID: m.TurnID, Epoch: m.Epoch}, "done"))
	after := counters(t, s)
	items, err := s.agent.View().Quarantined()
	s.check(err)
	s.check(s.agent.Expel(context.Background(), items[0].Key, ""))
	s.now = s.now.Add(24 * time.Hour)
	s.poll()
	last := counters(t, s)
	if len(before) < 5 {
		t.Fatalf("the counters are %v", before)
	}
	for name, value := range before {
		if after[name] < value || last[name] < after[name] || strings.Contains(name, "messages") && after[name] <= value {
			t.Errorf("%s was %v, then %v, then %v", name, value, after[name], last[name])
		}
	}
}

// counters returns the samples of all counters.
func counters(t *testing.T, s *stage) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(metricsOf(t, s.now, s.agent)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.Contains(name, "_total{") {
			n, err := strconv.ParseFloat(value, 64)
			s.check(err)
			all[name] = n
		}
	}
	return all
}

// TestPageOfMetrics compares the table of docs/metrics.md with the metrics, and gives its alerts to
// promtool.
func TestPageOfMetrics(t *testing.T) {
	data, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := "| `build_info` | gauge |"
	for _, f := range families() {
		listed += "\n| `" + f.name + "` | " + f.kind + " |"
	}
	var rows []string
	for line := range strings.Lines(string(data)) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.Join(cells[:3], "|")+"|")
		}
	}
	if got := strings.Join(rows, "\n"); got != listed {
		t.Errorf("the page lists\n%s\nand the metrics are\n%s", got, listed)
	}
	_, alerts, ok := strings.Cut(string(data), "    groups:\n")
	if !ok {
		t.Fatal("no alerts")
	}
	alerts, _, _ = strings.Cut("    groups:\n"+alerts, "\n\n")
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll("\n"+alerts, "\n    ", "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtoolPath(t), "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v: %s", err, out)
	}
	for _, word := range regexp.MustCompile("agentstateloop_[a-z_]+").FindAllString(alerts, -1) {
		name := strings.TrimPrefix(word, "agentstateloop_")
		if !slices.ContainsFunc(families(), func(f family) bool { return f.name == name }) {
			t.Errorf("an alert has the unknown metric %s", word)
		}
	}
}
