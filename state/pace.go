package state

import "time"

// postsAMinute limits what an agent sends to others within a minute where the mesh keeps
// no pace itself (docs/design.md, "The mesh over NATS").
const postsAMinute = 5

// notePost records that a message left through the mesh.
func (m *machine) notePost() {
	if m.policy.PacesMesh {
		m.Posts = append(m.Posts, m.now)
	}
}

// forgetPosts forgets those of more than a minute ago.
func (m *machine) forgetPosts() { m.Posts = after(m.Posts, m.now.Add(-time.Minute)) }

// paced returns when the channel takes another message of ours, by its pace.
func (s State) paced(c Channel) time.Time {
	if c != ByMesh || len(s.Posts) < postsAMinute {
		return time.Time{}
	}
	return s.Posts[len(s.Posts)-postsAMinute].Add(time.Minute)
}

// notBefore returns when a row may be sent, by its own pause and the pace of its channel.
func (s State) notBefore(e Effect) time.Time {
	return latest(e.NotBefore, s.paced(e.Channel))
}
