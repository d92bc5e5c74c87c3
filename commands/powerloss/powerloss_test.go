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
	"testing"
	"time"
)

var (
	disks = flag.Int("disks", 2, "try this many disks of each scenario; 0 tries all")
	seed  = flag.Uint64("seed", 0, "choose the disks by this number; 0 chooses by the time")
	point = flag.Int("point", -1, "try only crashes at this point")
	tries = flag.Int("tries", 3, "draw this many disks at each point where chance decides")
)

// TestPowerLoss plays each scenario and cuts the power in it.
func TestPowerLoss(t *testing.T) {
	needTools(t)
	program := filepath.Join(t.TempDir(), "agentstateloop")
	if out, err := exec.Command("go", "build", "-o", program, "../..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	for _, sc := range scenarios {
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
	moments := s.moments()
	all := s.losses(t, empty, moments, shard)
	chosen := sc.choose(all, shard)
	began := time.Now()
	s.cut(t, sc, empty, moments, chosen)
	t.Logf("%d moments, %d disks, %d of them tried in %.0f s; -seed %d", len(moments), len(all), len(chosen), time.Since(began).Seconds(), *seed)
}

// cutting is one power loss to try.
type cutting struct {
	point int
	loss  loss
	draw  uint64
}

// chance returns the source of the loss's random choices.
func (c cutting) chance() *rand.Rand { return rand.New(rand.NewPCG(*seed^c.draw, uint64(c.point))) }

// losses returns the power losses that leave different disks, or the same disk and
// another world. It plays the whole story, and checks that the trace is complete.
func (s *story) losses(t *testing.T, empty *disk, moments []moment, shard int) []cutting {
	t.Helper()
	type outcome struct {
		disk   [sha256.Size]byte
		events int
	}
	var all []cutting
	found := map[outcome]bool{}
	d, events := empty.clone(), 0
	for i, m := range moments {
		if m.event != nil {
			events++
		} else if err := d.play(*m.call); err != nil {
			t.Fatal(err)
		}
		for l := range loss(losses) {
			draws := 1
			if l >= journalled {
				draws = *tries
			}
			for n := range draws {
				c := cutting{i, l, uint64(n*100+shard*10) + uint64(l)}
				o := outcome{d.after(l, c.chance()).sum(), events}
				if !found[o] {
					found[o] = true
					all = append(all, c)
				}
			}
		}
	}
	d.compare(t)
	return all
}

// choose returns the losses to try, in order.
func (sc scenario) choose(all []cutting, shard int) []cutting {
	shards := max(sc.shards, 1)
	var chosen []cutting
	if *point >= 0 || *disks == 0 {
		for i, c := range all {
			if *point == c.point || *point < 0 && i%shards == shard {
				chosen = append(chosen, c)
			}
		}
		return chosen
	}
	// Each way to lose power gets its share.
	kinds := make([][]int, losses)
	for i, c := range all {
		kinds[c.loss] = append(kinds[c.loss], i)
	}
	chance := rand.New(rand.NewPCG(*seed, uint64(shard)))
	for _, k := range kinds {
		chance.Shuffle(len(k), func(i, j int) { k[i], k[j] = k[j], k[i] })
	}
	want, taken := (*disks+shards-1)/shards, map[int]bool{}
	for n := 0; len(taken) < min(want, len(all)); n++ {
		if k := &kinds[n%losses]; len(*k) > 0 {
			taken[(*k)[0]] = true
			*k = (*k)[1:]
		}
	}
	for i, c := range all {
		if taken[i] {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// cut plays the story again and tries the chosen losses.
func (s *story) cut(t *testing.T, sc scenario, empty *disk, moments []moment, chosen []cutting) {
	d := empty.clone()
	var past []event
	for i, m := range moments {
		if len(chosen) == 0 {
			return
		}
		if m.event != nil {
			past = append(past, *m.event)
		} else if err := d.play(*m.call); err != nil {
			t.Fatal(err)
		}
		for len(chosen) > 0 && chosen[0].point == i {
			next := chosen[0]
			chosen = chosen[1:]
			c := &crash{story: s, point: i, loss: next.loss, past: past, before: d.live(), after: d.after(next.loss, next.chance())}
			if err := c.after.write(s.root); err != nil {
				t.Fatal(err)
			}
			if err := s.world.reset(past); err != nil {
				t.Fatal(err)
			}
			sc.hold(c)
			s.settle()
			if t.Failed() {
				return
			}
		}
	}
}
