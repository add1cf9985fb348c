// Measures hnswlib (a header that is not part of this repository) on the data of BenchmarkHNSWAgainstHnswlib.
//
// usage: hnswlib_bench POINTS QUERIES TRUTH M EF_CONSTRUCTION
// POINTS and QUERIES: int32 rows, int32 columns, float32 data; TRUTH: int32 rows, int32 columns, int32 unit numbers.
// Prints the CPU seconds of the build, then for every ef read from standard input one line with the recall and the CPU
// seconds of one pass over the queries, all on one thread.
#include <hnswlib/hnswlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unordered_set>
#include <vector>

template <typename T>
static std::vector<T> load(const char *path, int32_t &rows, int32_t &columns) {
  FILE *file = fopen(path, "rb");
  if (!file || fread(&rows, 4, 1, file) != 1 || fread(&columns, 4, 1, file) != 1) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  std::vector<T> data(size_t(rows) * columns);
  if (fread(data.data(), sizeof(T), data.size(), file) != data.size()) {
    fprintf(stderr, "%s is too short\n", path);
    exit(1);
  }
  fclose(file);
  return data;
}

static double cpu() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  int32_t n, d, queries, truths, k;
  auto points = load<float>(argv[1], n, d);
  auto query = load<float>(argv[2], queries, d);
  auto truth = load<int32_t>(argv[3], truths, k);

  hnswlib::InnerProductSpace space(d);
  double start = cpu();
  hnswlib::HierarchicalNSW<float> graph(&space, n, atoi(argv[4]), atoi(argv[5]), 1);
  for (int32_t i = 0; i < n; i++) graph.addPoint(&points[size_t(i) * d], i);
  printf("%.6f\n", cpu() - start);
  fflush(stdout);

  int ef;
  while (scanf("%d", &ef) == 1) {
    graph.setEf(ef);
    std::vector<std::vector<int32_t>> found(queries);
    start = cpu();
    for (int32_t i = 0; i < queries; i++) {
      auto hits = graph.searchKnn(&query[size_t(i) * d], k);
      found[i].reserve(hits.size());
      for (; !hits.empty(); hits.pop()) found[i].push_back(int32_t(hits.top().second));
    }
    double seconds = cpu() - start;
    int64_t right = 0;
    for (int32_t i = 0; i < truths; i++) {
      std::unordered_set<int32_t> want(&truth[size_t(i) * k], &truth[size_t(i) * k] + k);
      for (int32_t id : found[i]) right += want.count(id);
    }
    printf("%.6f %.6f\n", double(right) / (double(truths) * k), seconds);
    fflush(stdout);
  }
}
