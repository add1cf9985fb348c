// Package evaluation owns the metrics of finished episodes: what one episode scores on its question ([Score]), and what
// a set of them scores ([Aggregate]).
// It must not know how episodes were produced, nor how their numbers are stored or compared.
package evaluation
