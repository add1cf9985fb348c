// Package rollout runs agents: it lets a policy write until it acts, carries the action out, appends what came back,
// and goes on until the episode ends.
//
// It owns the rules of a dialogue: protocols, limits, budgets, what becomes of an invalid action, how text from outside
// is kept from becoming control, continuing and forking of episodes. What the policy sampled is what the episode
// holds: token ids and log-probabilities are recorded as they were sampled and never made again from text, and the
// mask of trained tokens follows from who wrote each segment. A dialogue grows in one sequence; an agent whose prompt
// is rendered anew each turn has a sequence per turn, and its turns can be laid out under another agent's prompt.
//
// It must not know how a policy computes (see [Sampler]), how tools find things (see [Tools]), rewards, or files.
package rollout
