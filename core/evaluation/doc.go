// Package evaluation owns the metrics of finished episodes: what one episode scores on its question ([Score]), what a
// set of them scores ([Aggregate]), and the published file-level evaluations of HotpotQA, 2WikiMultihopQA and MuSiQue.
// It must not know how episodes were produced, nor how their numbers are stored or compared.
package evaluation
