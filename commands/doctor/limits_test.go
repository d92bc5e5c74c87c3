package doctor

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/commands/config"
	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// checkFunc is a check that is one function.
type checkFunc func(context.Context) []Finding

func (f checkFunc) run(ctx context.Context) []Finding { return f(ctx) }

// hasTimeout reports whether a context with a timeout lives for a time.
func hasTimeout(limited func(context.Context) (context.Context, context.CancelFunc)) func(*testing.T, time.Duration) bool {
	return func(t *testing.T, d time.Duration) (lives bool) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := limited(context.Background())
			defer cancel()
			time.Sleep(d - 1)
			lives = ctx.Err() == nil
		})
		return lives
	}
}

// space returns the levels of the findings about a file system.
func space(free, files int64) string {
	s := unix.Statfs_t{Bsize: 1, Files: 1000}
	setNumber(&s.Bavail, free)
	setNumber(&s.Ffree, files)
	return levels(checkSpace(&s))
}

// setNumber sets a field whose type depends on the system.
func setNumber[T int64 | uint64](field *T, n int64) { *field = T(n) }

func TestLimits(t *testing.T) {
	const plenty = 1 << 40
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	limittest.Run(t, []limittest.Limit{
		// Timeouts.
		limittest.Duration("boxTimeout", 30*time.Second, 2, hasTimeout(forBox)),
		limittest.Duration("versionTimeout", 20*time.Second, 2, hasTimeout(forVersion)),
		limittest.Duration("acpTimeout", 45*time.Second, 2, hasTimeout(forACP)),
		limittest.Duration("checkTimeout", 40*time.Second, 2, func(t *testing.T, d time.Duration) (lives bool) {
			synctest.Test(t, func(t *testing.T) {
				runCheck(t.Context(), checkFunc(func(ctx context.Context) []Finding {
					time.Sleep(d - 1)
					lives = ctx.Err() == nil
					return nil
				}))
			})
			return lives
		}),

		// Thresholds of findings.
		limittest.Duration("maxSkew", 5*time.Minute, 1, func(t *testing.T, d time.Duration) bool {
			return levels(clockCheck{lastStep: now.Add(d), now: clock}.run(t.Context())) == "ok"
		}),
		limittest.Duration("latePoll", 2*time.Minute, 1, func(t *testing.T, d time.Duration) bool {
			s := state.New("a", "seed")
			s.NextDue = now.Add(-d)
			return pollsCheck{config: new(config.Config), state: s, now: clock}.polls(now).Level == OK
		}),
		limittest.Duration("slowTrip", 500*time.Millisecond, 1, func(t *testing.T, d time.Duration) bool {
			return levels(meshCheck{}.servers([]fleet.ServerSeen{{Version: oldestServer, Cluster: "c", MaxPayload: fleet.MinPayload, Trip: d}})) == "ok"
		}),
		limittest.Duration("lossMatters", 14*24*time.Hour-1, 1, func(t *testing.T, d time.Duration) bool { // it is reported
			st := &store.Store{Dir: t.TempDir()}
			key, err := json.Marshal(store.IDKey{Secret: make([]byte, 32), Made: now.Add(-d), Cause: store.KeyLost})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(st.Path(store.IDKeyFile), key, 0o600); err != nil {
				t.Fatal(err)
			}
			return levels(stateDirCheck{store: st, now: clock}.checkIDKey()) == "info"
		}),
		{Const: "littleSpace", Max: 200<<20 - 1, Within: func(t *testing.T, n int64) bool { return space(n, plenty) == "warn" }},
		{Const: "noSpace", Max: 10<<20 - 1, Within: func(t *testing.T, n int64) bool { return space(n, plenty) == "error" }},
		{Const: "fewFiles", Max: 99, Within: func(t *testing.T, n int64) bool { return space(plenty, n) == "error" }},
		{Const: "lowestOutside", Max: 63, Within: func(t *testing.T, n int64) bool { return visiblePID(int(n)) == 0 }},
		{Const: "least", Max: 2, Within: func(t *testing.T, n int64) bool { // too few to suggest a name
			_, all := onlyStamp(strings.Split(strings.TrimSuffix(strings.Repeat("mx.example.org ", int(n)), " "), " "))
			return !all
		}},
		{Const: "maxBreaks", Max: 5, Within: func(t *testing.T, n int64) bool { // all are named
			found := auditFindings(store.Audit{Breaks: make([]store.Break, n)})
			return !strings.HasSuffix(found[len(found)-1].Text, " more")
		}},

		// Input.
		{Const: "maxInfo", Max: 256 << 10, Within: func(t *testing.T, n int64) bool {
			head := append(append([]byte{0xff}, " Go buildinf:"...), 8, infoInline)
			info := binary.AppendUvarint(append(head, make([]byte, 32-len(head))...), 6)
			info = append(info, "go1.26"...)
			mark := strings.Repeat("m", 16)
			modules := mark + "path\tx\nmod\tx\tv1.2.3\t\nbuild\t-ldflags="
			rest := int(n) - len(info) - 3 // the length of the rest takes three bytes
			modules += strings.Repeat("x", rest-len(modules)-len("\n"+mark)) + "\n" + mark
			info = append(binary.AppendUvarint(info, uint64(len(modules))), modules...)
			if len(info) != int(n) {
				t.Fatalf("the build information has %d bytes, want %d", len(info), n)
			}
			file := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(file, append(bytes.Repeat([]byte{0}, 64), info...), 0o600); err != nil {
				t.Fatal(err)
			}
			return versionOf(file) == "v1.2.3"
		}},
	})
}
