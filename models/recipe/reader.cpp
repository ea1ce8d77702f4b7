// Reads a GGUF file with llama.cpp (CPU backend, float32 KV cache), for golden.py.
// usage: reader MODEL.gguf COUNT < prompts separated by NUL > a line of JSON for each:
//   {ids, out, eog_at, min_gap, top5}: the prompt's tokens, COUNT greedy tokens (not stopped at end tokens), the index of the
//   first end token among them or -1, the least distance between the best and second-best logit, and the five best
//   [token, logit] at the prompt's last position.
// g++ -O2 -std=c++17 reader.cpp -lllama -lggml -o reader
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <llama.h>
#include <numeric>
#include <string>
#include <vector>

static void fail(const char * what) { fprintf(stderr, "reader: %s\n", what); exit(1); }

static std::string list(const std::vector<llama_token> & xs) {
  std::string s = "[";
  for (size_t i = 0; i < xs.size(); i++) s += (i ? ", " : "") + std::to_string(xs[i]);
  return s + "]";
}

int main(int argc, char ** argv) {
  if (argc < 3) fail("usage: reader MODEL.gguf COUNT");
  const int count = atoi(argv[2]);
  llama_log_set([](ggml_log_level level, const char * text, void *) { if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr); }, nullptr);
  ggml_backend_load_all();
  llama_model_params mp = llama_model_default_params();
  mp.n_gpu_layers = 0;
  llama_model * model = llama_model_load_from_file(argv[1], mp);
  if (!model) fail("cannot load the model");
  const llama_vocab * vocab = llama_model_get_vocab(model);
  const int size = llama_vocab_n_tokens(vocab);

  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  for (size_t at = 0; at <= input.size();) {
    const size_t end = std::min(input.find('\0', at), input.size());
    const std::string prompt = input.substr(at, end - at);
    at = end + 1;

    std::vector<llama_token> ids(prompt.size() + 8), out;
    const int n = llama_tokenize(vocab, prompt.data(), prompt.size(), ids.data(), ids.size(), false, true);
    if (n <= 0) fail("cannot tokenize a prompt");
    ids.resize(n);

    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = cp.n_batch = cp.n_ubatch = 1024;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context * context = llama_init_from_model(model, cp);
    if (!context) fail("cannot make a context");

    std::string top5;
    int eog_at = -1;
    double min_gap = INFINITY;
    llama_batch batch = llama_batch_get_one(ids.data(), n);
    for (llama_token next; (int) out.size() < count; batch = llama_batch_get_one(&next, 1)) {
      if (llama_decode(context, batch)) fail("cannot decode");
      const float * logits = llama_get_logits_ith(context, -1);
      std::vector<int> best(size);
      std::iota(best.begin(), best.end(), 0);
      std::partial_sort(best.begin(), best.begin() + 5, best.end(), [&](int a, int b) { return logits[a] > logits[b]; });
      for (int i = 0; out.empty() && i < 5; i++) {
        char pair[64];
        snprintf(pair, sizeof pair, "%s[%d, %.6f]", i ? ", " : "", best[i], logits[best[i]]);
        top5 += pair;
      }
      min_gap = std::min(min_gap, (double) logits[best[0]] - logits[best[1]]);
      next = best[0];
      if (eog_at < 0 && llama_vocab_is_eog(vocab, next)) eog_at = out.size();
      out.push_back(next);
    }
    printf("{\"ids\": %s, \"out\": %s, \"eog_at\": %d, \"min_gap\": %.4f, \"top5\": [%s]}\n", list(ids).c_str(), list(out).c_str(), eog_at, min_gap, top5.c_str());
    llama_free(context);
  }
  llama_model_free(model);
}
