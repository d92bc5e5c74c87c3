package fleet

import (
	"encoding/json"
	"time"
)

// MailboxSeen is the server's description of our mailbox.
type MailboxSeen struct {
	State   AssetState // the fields below are known if it is AssetThere
	Waiting int        // messages, including those that a poll was shown
	Differs []string   // the settings that differ from Mailbox: "ack_wait 30s instead of 1m0s"
	Copies  []string   // the servers that store it, the leader first; empty for a single server
	Behind  []string   // the copies that are offline or lag
	Clock   time.Time  // of the server that answered
}

// mailboxSeen reads JetStream's answer about the consumer of an agent. a is nil without an
// answer.
func mailboxSeen(a *answer, handle string) MailboxSeen {
	switch {
	case a == nil:
		return MailboxSeen{State: AssetSilent}
	case a.status == 503:
		return MailboxSeen{State: AssetMissing}
	}
	var info struct {
		Error      *apiError      `json:"error"`
		Config     map[string]any `json:"config"`
		Pending    int            `json:"num_pending"`
		AckPending int            `json:"num_ack_pending"`
		Clock      time.Time      `json:"ts"`
		Cluster    struct {
			Leader   string `json:"leader"`
			Replicas []struct {
				Name    string `json:"name"`
				Current bool   `json:"current"`
				Offline bool   `json:"offline"`
			} `json:"replicas"`
		} `json:"cluster"`
	}
	if err := json.Unmarshal(a.Data, &info); err != nil {
		return MailboxSeen{State: AssetSilent}
	}
	if e := info.Error; e != nil {
		if e.Number == numberNoConsumer || e.Number == numberNoStream {
			return MailboxSeen{State: AssetMissing}
		}
		return MailboxSeen{State: AssetSilent}
	}
	box := MailboxSeen{State: AssetThere, Waiting: info.Pending + info.AckPending, Clock: info.Clock}
	for _, d := range compare(Mailbox(handle), info.Config) {
		box.Differs = append(box.Differs, d.String())
	}
	if info.Cluster.Leader != "" {
		box.Copies = append(box.Copies, info.Cluster.Leader)
	}
	for _, r := range info.Cluster.Replicas {
		box.Copies = append(box.Copies, r.Name)
		if r.Offline || !r.Current {
			box.Behind = append(box.Behind, r.Name)
		}
	}
	return box
}
