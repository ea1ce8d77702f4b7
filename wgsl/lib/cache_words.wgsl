// Reading keys and values that earlier dispatches wrote to the cache.
fn key_words(row: u32, d: u32, base: u32, lane: u32, range: Range) -> vec4<u32> {
  return k_cache[(row + d / 2u) / 4u];
}

fn value_word(row: u32, w: u32, position: u32, range: Range) -> u32 {
  return v_cache[row + w];
}
