package state

import "time"

// postsAMinute limits the messages that an agent sends to others within a minute, on a mesh without
// a pace of its own (docs/protocol.md, "The mesh over NATS").
const postsAMinute = 5

// notePost records that a message left through the mesh.
func (m *machine) notePost() {
	if m.policy.PacesMesh {
		m.Posts = append(m.Posts, m.now)
	}
}

// forgetPosts forgets the posts from more than a minute ago.
func (m *machine) forgetPosts() { m.Posts = after(m.Posts, m.now.Add(-time.Minute)) }

// paced returns when the pace of the channel allows another message of ours.
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
