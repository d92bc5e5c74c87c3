// Package trust decides whether a mail is an order for this agent (docs/design.md, "The
// gate"). It is the one package that a security audit of the mail must read.
//
// Its input is the bytes of a mail, their size and arrival, the settings of [trust] and a
// resolver; its output is a Verdict. It opens no mailbox and sends no mail, and a test of
// the repository keeps it from importing an IMAP or SMTP library.
//
// Filter.Gate decides by the header, JudgeHeader adds the proof of the sender as far as the
// header has it, and JudgeBody verifies the body. Trial is the same decision for `doctor`.
package trust
