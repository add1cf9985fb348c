// Package sdktest tests plugins without processes: [Algorithm], [Reward] and [Retriever] serve a plugin over a
// connection in memory, with all conversions of the real one; [Host] is a scripted host; [TestAlgorithm], [TestReward]
// and [TestRetriever] check what every plugin of a kind must keep to.
//
//	func TestConformance(t *testing.T) { sdktest.TestReward(t, em.Plugin()) }
package sdktest
