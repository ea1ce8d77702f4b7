// Gated delta rule over the tokens of one sequence in the step. One workgroup for some state columns of a value head:
//   S = exp(a * softplus(alpha + dt)) * S;  S += k * (v - S^T k) * sigmoid(beta);  out = S^T q / sqrt(KEY)
// with q and k of unit length. Columns of S are independent. With SUBGROUPS, LANES threads share the rows of COLUMNS
// columns; without, each thread has one column, and no synchronization is needed.
// mixed contains q and k [key_heads, KEY] each, v and z [value_heads, value_dim] each, beta and alpha [value_heads] each.
// Value head h uses q and k of key head h % key_heads. state: [slots, value_heads, value_dim, KEY].
//#if SUBGROUPS
enable subgroups;
//#endif

struct Params {
  key_heads: u32,
  value_heads: u32,
  value_dim: u32,   // a multiple of COLUMNS
  stride: u32,      // of mixed, from token to token: a multiple of 4
  out_stride: u32,
}

@group(0) @binding(0) var<storage, read> vectors: array<f32>;  // dt, then a
@group(0) @binding(1) var<storage, read> spans: array<vec4<u32>>;  // first row, rows, slot, position of the first
@group(0) @binding(2) var<storage, read> mixed: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> state: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

const QUADS = KEY / 4u;
// The rows of a column in one lane.
const OWN = (QUADS + LANES - 1u) / LANES;
const one = vec4(1.0);

//#if SUBGROUPS
const_assert COLUMNS % 4u == 0u && COLUMNS <= LANES && WG == LANES;
//#else
const_assert COLUMNS == 1u && LANES == 1u;
//#endif

fn element(at: u32) -> f32 {
  return mixed[at / 4u][at % 4u];
}

// For large x, exp(x) overflows f32, and ln(1 + exp(x)) equals x.
fn softplus(x: f32) -> f32 {
  return select(log(1.0 + exp(x)), x, x > 20.0);
}

fn over_lanes(part: vec4<f32>) -> vec4<f32> {
  //#if SUBGROUPS
  return subgroupAdd(part);
  //#else
  return part;
  //#endif
}

@compute @workgroup_size(WG)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let head = group.y;
  let span = spans[group.z];
  //#if SUBGROUPS
  let lane = local;
  let first_column = group.x * COLUMNS;
  let column = first_column + min(local, COLUMNS - 1u);
  //#else
  let lane = 0u;
  let column = group.x * WG + local;
  let first_column = column;
  if (column >= params.value_dim) {
    return;
  }
  //#endif
  let first_key = params.key_heads * QUADS;
  let key_head = (head % params.key_heads) * QUADS + lane;
  let values = params.key_heads * KEY * 2u + head * params.value_dim + column;
  let gates = (params.key_heads * KEY + params.value_heads * params.value_dim) * 2u + head;
  let kept = ((span.z * params.value_heads + head) * params.value_dim + first_column) * QUADS + lane;
  let bias = vectors[head];
  let rate = vectors[params.value_heads + head];

  var s = array<vec4<f32>, COLUMNS * OWN>();
  var k = array<vec4<f32>, OWN>();
  var write = array<f32, COLUMNS>();
  var keep = 1.0;
  if (span.w > 0u) {
    for (var c = 0u; c < COLUMNS; c++) {
      for (var i = 0u; i < OWN; i++) {
        if (lane + i * LANES < QUADS) {
          s[c * OWN + i] = state[kept + c * QUADS + i * LANES];
        }
      }
    }
  }
  for (var t = 0u; t < span.y; t++) {
    let row = (span.x + t) * params.stride;
    let query = row / 4u + key_head;
    var read_k = array<vec4<f32>, COLUMNS>();
    var read_q = array<vec4<f32>, COLUMNS>();
    var squares = vec4(0.0);
    // The update of the previous token is applied while this token reads the state: one pass over the state per token.
    for (var i = 0u; i < OWN; i++) {
      let before = k[i];
      var now = vec4(0.0);
      var q = vec4(0.0);
      if (lane + i * LANES < QUADS) {
        q = mixed[query + i * LANES];
        now = mixed[query + first_key + i * LANES];
      }
      k[i] = now;
      squares += vec4(dot(now, now), dot(q, q), dot(now, q), 0.0);
      for (var c = 0u; c < COLUMNS; c++) {
        let value = fma(before, vec4(write[c]), s[c * OWN + i] * keep);
        s[c * OWN + i] = value;
        read_k[c] = fma(value, now, read_k[c]);
        read_q[c] = fma(value, q, read_q[c]);
      }
    }
    let lengths = over_lanes(squares);
    let length_k = inverseSqrt(lengths.x + 1e-6);
    let length_q = inverseSqrt(lengths.y + 1e-6) * inverseSqrt(f32(KEY));
    let beta = 1.0 / (1.0 + exp(-element(row + gates)));
    keep = exp(rate * softplus(element(row + gates + params.value_heads) + bias));
    //#if SUBGROUPS
    var mine = vec2(0.0);
    for (var c = 0u; c < COLUMNS; c += 4u) {
      let of_k = over_lanes(vec4(
        dot(read_k[c], one), dot(read_k[c + 1u], one), dot(read_k[c + 2u], one), dot(read_k[c + 3u], one)));
      let of_q = over_lanes(vec4(
        dot(read_q[c], one), dot(read_q[c + 1u], one), dot(read_q[c + 2u], one), dot(read_q[c + 3u], one)));
      for (var j = 0u; j < 4u; j++) {
        mine = select(mine, vec2(of_k[j], of_q[j]), local == c + j);
      }
    }
    //#else
    let mine = vec2(dot(read_k[0], one), dot(read_q[0], one));
    //#endif
    let change = beta * (element(row + values) - keep * length_k * mine.x) * length_k;
    //#if SUBGROUPS
    if (local < COLUMNS) {
    //#endif
    y[(span.x + t) * params.out_stride + head * params.value_dim + column] =
      length_q * fma(lengths.z, change, keep * mine.y);
    //#if SUBGROUPS
    }
    for (var c = 0u; c < COLUMNS; c++) {
      write[c] = subgroupShuffle(change, c);
    }
    //#else
    write[0] = change;
    //#endif
  }
  for (var c = 0u; c < COLUMNS; c++) {
    for (var i = 0u; i < OWN; i++) {
      if (lane + i * LANES < QUADS) {
        state[kept + c * QUADS + i * LANES] = fma(k[i], vec4(write[c]), s[c * OWN + i] * keep);
      }
    }
  }
}
