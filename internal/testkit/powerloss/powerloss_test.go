// Package powerloss cuts the power of the real program. It records the system calls of
// commands with strace, works out what a disk may hold if the power goes after any of
// them, starts the program on such disks, and checks the promises of docs/design.md
// (docs/testing.md, "Power loss").
package powerloss

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

var (
	disks = flag.Int("disks", -1, "try this many disks of each scenario, or with 0 all; without it, some of three scenarios")
	seed  = flag.Uint64("seed", 0, "choose by this number; 0 chooses by the time")
	point = flag.Int("point", -1, "try only crashes at this point")
	only  = flag.Int("loss", -1, "try only this way to lose power, 0 to 9")
	tries = flag.Int("tries", 3, "with -disks 0, draw this many disks at each point where chance decides")
)

// umask is that of all processes, whatever the machine's is: a trace does not show it.
const umask = 0o022

func TestMain(m *testing.M) {
	syscall.Umask(umask)
	m.Run()
}

// TestPowerLoss plays each scenario and cuts the power in it.
func TestPowerLoss(t *testing.T) {
	needTools(t)
	program := filepath.Join(t.TempDir(), "agentstateloop")
	if out, err := exec.Command("go", "build", "-o", program, "../../..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	played := slices.Clone(scenarios)
	if *disks < 0 {
		rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(played), func(i, j int) { played[i], played[j] = played[j], played[i] })
		played, *disks = played[:3], 3
	}
	for _, sc := range played {
		for shard := range max(sc.shards, 1) {
			t.Run(fmt.Sprintf("%s/%d", sc.name, shard), func(t *testing.T) {
				t.Parallel()
				sc.play(t, program, shard)
			})
		}
	}
}

// play records the story and tries its share of the crashes.
func (sc scenario) play(t *testing.T, program string, shard int) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, dir: dir, root: filepath.Join(dir, "disk"), program: filepath.Join(dir, "agentstateloop"), world: newWorld(t, dir)}
	t.Cleanup(func() { removeAll(s.root) })
	if err := os.Link(program, s.program); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.path("home"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.writeFile("passwd", fmt.Sprintf("you:x:%d:%d::%s:/bin/sh\n", os.Getuid(), os.Getgid(), s.path("home")))
	if sc.set != nil {
		sc.set(s)
	}
	empty, err := newDisk(s.root)
	if err != nil {
		t.Fatal(err)
	}
	sc.tell(s)
	s.settle()
	s.cut(sc, empty, shard)
}

// cutting is one power loss to try.
type cutting struct {
	point int
	loss  loss
	draw  uint64
}

// chance returns the source of the loss's random choices.
func (c cutting) chance() *rand.Rand { return rand.New(rand.NewPCG(*seed^c.draw, uint64(c.point))) }

// points returns the moments at which the disk or the world changed. It plays the whole
// story, and checks that the trace is complete.
func (s *story) points(empty *disk, moments []moment) (changed []int) {
	s.Helper()
	d := empty.clone()
	for i, m := range moments {
		before := d.changes
		s.play(d, m)
		if m.event != nil || d.changes > before {
			changed = append(changed, i)
		}
	}
	d.compare(s.T)
	return changed
}

// choose returns losses to try, in order: all, or some, each way to lose power as often
// as another.
func (sc scenario) choose(points []int, shard int) (chosen []cutting) {
	shards := max(sc.shards, 1)
	if *disks == 0 || *point >= 0 {
		for i, p := range points {
			if *point >= 0 && p != *point || *point < 0 && i%shards != shard {
				continue
			}
			for l := range loss(losses) {
				for n := range uint64(*tries) {
					if (n == 0 || l >= journalled) && (*only < 0 || l == loss(*only)) {
						chosen = append(chosen, cutting{p, l, n})
					}
				}
			}
		}
		return chosen
	}
	chance := rand.New(rand.NewPCG(*seed, uint64(shard)))
	for n := range (*disks + shards - 1) / shards {
		chosen = append(chosen, cutting{points[chance.IntN(len(points))], loss((n + shard) % losses), chance.Uint64()})
	}
	slices.SortStableFunc(chosen, func(a, b cutting) int { return a.point - b.point })
	return chosen
}

// cut plays the story again, with power losses. It tries no disk twice with the same
// world, and stops at the first that breaks a promise.
func (s *story) cut(sc scenario, empty *disk, shard int) {
	type outcome struct {
		disk   [sha256.Size]byte
		events int
	}
	began, tried := time.Now(), map[outcome]bool{}
	moments := s.moments()
	points := s.points(empty, moments)
	chosen := sc.choose(points, shard)
	d := empty.clone()
	var past []event
	for i, m := range moments {
		if m.event != nil {
			past = append(past, *m.event)
		}
		s.play(d, m)
		for len(chosen) > 0 && chosen[0].point == i && !s.Failed() {
			next := chosen[0]
			chosen = chosen[1:]
			c := &crash{story: s, point: i, loss: next.loss, past: past, after: d.after(next.loss, next.chance())}
			if o := (outcome{c.after.sum(), len(past)}); !tried[o] {
				tried[o] = true
				c.before = d.live()
				c.try(sc)
			}
		}
	}
	s.Logf("%d points, %d disks tried in %.0f s; -seed %d", len(points), len(tried), time.Since(began).Seconds(), *seed)
}

// try starts the program on the disk and checks the promises.
func (c *crash) try(sc scenario) {
	c.Helper()
	if err := c.after.write(c.root); err != nil {
		c.Fatal(err)
	}
	if err := c.world.reset(c.past); err != nil {
		c.Fatal(err)
	}
	sc.hold(c)
	c.settle()
}
