/**
 * llama2.c checkpoints (a header, then float32 tensors grouped by kind) as a GGUF file of architecture llama.
 * llama2.c turns neighbouring pairs in RoPE, as GGUF's llama does: the weights go over unchanged.
 */

type Scalar = { u32: number } | { f32: number } | { bool: boolean } | { string: string };
type List = { strings: string[] } | { f32s: number[] } | { i32s: number[] };

interface Tensor {
  name: string;
  /** Outermost first. */
  shape: number[];
  /** Little-endian float32. */
  bytes: Uint8Array;
}

/** `tokenizer.ggml.token_type`. */
const tokenTypes = { normal: 1, unknown: 2, control: 3, byte: 6 };

/**
 * @param checkpoint 7 x int32 (dim, hidden_dim, layers, heads, kv_heads, vocab_size, seq_len), then the tensors
 * @param vocabulary int32 longest piece, then per token: float32 score, int32 length, bytes
 * @returns the bytes of a GGUF file
 */
export function llama2cAsGguf(checkpoint: Uint8Array, vocabulary: Uint8Array): Uint8Array<ArrayBuffer> {
  const header = new DataView(checkpoint.buffer, checkpoint.byteOffset, 28);
  const at = (index: number) => header.getInt32(index * 4, true);
  const [dim, hidden, layers, heads, kvHeads, context] = [at(0), at(1), at(2), at(3), at(4), at(6)];
  const vocab = Math.abs(at(5));
  const headDim = dim / heads;
  return writeGguf(
    {
      'general.architecture': { string: 'llama' },
      'general.name': { string: 'llama2.c checkpoint' },
      'llama.vocab_size': { u32: vocab },
      'llama.context_length': { u32: context },
      'llama.embedding_length': { u32: dim },
      'llama.block_count': { u32: layers },
      'llama.feed_forward_length': { u32: hidden },
      'llama.attention.head_count': { u32: heads },
      'llama.attention.head_count_kv': { u32: kvHeads },
      'llama.attention.layer_norm_rms_epsilon': { f32: 1e-5 },
      'llama.rope.dimension_count': { u32: headDim },
      'llama.rope.freq_base': { f32: 10000 },
      ...tokenizerMetadata(vocabulary, vocab),
    },
    tensorsOf(checkpoint, { dim, hidden, layers, headDim, kvHeads, vocab, context, tied: at(5) > 0 }),
  );
}

function tensorsOf(
  checkpoint: Uint8Array,
  shape: Record<'dim' | 'hidden' | 'layers' | 'headDim' | 'kvHeads' | 'vocab' | 'context', number> & {
    tied: boolean;
  },
): Tensor[] {
  const { dim, hidden, layers, headDim, kvHeads, vocab, context, tied } = shape;
  const tensors: Tensor[] = [];
  let offset = 28;
  const take = (name: string, dims: number[]) => {
    const size = 4 * dims.reduce((product, n) => product * n, 1);
    tensors.push({ name, shape: dims, bytes: checkpoint.subarray(offset, offset + size) });
    offset += size;
  };
  const takeAll = (kind: string, dims: number[]) => {
    for (let n = 0; n < layers; n++) take(`blk.${n}.${kind}.weight`, dims);
  };
  take('token_embd.weight', [vocab, dim]);
  takeAll('attn_norm', [dim]);
  takeAll('attn_q', [dim, dim]);
  takeAll('attn_k', [kvHeads * headDim, dim]);
  takeAll('attn_v', [kvHeads * headDim, dim]);
  takeAll('attn_output', [dim, dim]);
  takeAll('ffn_norm', [dim]);
  takeAll('ffn_gate', [hidden, dim]); // w1
  takeAll('ffn_down', [dim, hidden]); // w2
  takeAll('ffn_up', [hidden, dim]); // w3
  take('output_norm.weight', [dim]);
  offset += context * headDim * 4; // tables of cosines and sines, not needed
  if (!tied) take('output.weight', [vocab, dim]);
  if (offset !== checkpoint.length) {
    throw new Error(`the checkpoint holds ${checkpoint.length} bytes, its header says ${offset}`);
  }
  return tensors;
}

function tokenizerMetadata(vocabulary: Uint8Array, vocab: number): Record<string, Scalar | List> {
  const view = new DataView(vocabulary.buffer, vocabulary.byteOffset, vocabulary.byteLength);
  const pieces: string[] = [];
  const scores: number[] = [];
  for (let id = 0, offset = 4; id < vocab; id++) {
    const length = view.getInt32(offset + 4, true);
    scores.push(view.getFloat32(offset, true));
    pieces.push(new TextDecoder().decode(vocabulary.subarray(offset + 8, offset + 8 + length)));
    offset += 8 + length;
  }
  const { normal, unknown, control, byte } = tokenTypes;
  return {
    'tokenizer.ggml.model': { string: 'llama' },
    // llama2.c prints BOS and EOS with line breaks around them, and spaces as spaces.
    'tokenizer.ggml.tokens': {
      strings: pieces.map((piece, id) => (id < 3 ? piece.trim() : piece.replaceAll(' ', '\u2581'))),
    },
    'tokenizer.ggml.scores': { f32s: scores },
    'tokenizer.ggml.token_type': {
      i32s: pieces.map((_, id) => [unknown, control, control][id] ?? (id < 259 ? byte : normal)),
    },
    'tokenizer.ggml.unknown_token_id': { u32: 0 },
    'tokenizer.ggml.bos_token_id': { u32: 1 },
    'tokenizer.ggml.eos_token_id': { u32: 2 },
    'tokenizer.ggml.add_bos_token': { bool: true },
    'tokenizer.ggml.add_eos_token': { bool: false },
    'tokenizer.ggml.add_space_prefix': { bool: true },
  };
}

/** GGUF version 3, alignment 32, F32 tensors. */
function writeGguf(metadata: Record<string, Scalar | List>, tensors: Tensor[]): Uint8Array<ArrayBuffer> {
  const head: Uint8Array[] = [new TextEncoder().encode('GGUF')];
  const put = (bytes: number, write: (view: DataView) => void) => {
    const view = new DataView(new ArrayBuffer(bytes));
    write(view);
    head.push(new Uint8Array(view.buffer));
  };
  const u32 = (value: number) => put(4, (view) => view.setUint32(0, value, true));
  const i32 = (value: number) => put(4, (view) => view.setInt32(0, value, true));
  const f32 = (value: number) => put(4, (view) => view.setFloat32(0, value, true));
  const u64 = (value: number) => put(8, (view) => view.setBigUint64(0, BigInt(value), true));
  const text = (value: string) => {
    const bytes = new TextEncoder().encode(value);
    u64(bytes.length);
    head.push(bytes);
  };
  const list = <T>(elementType: number, values: T[], write: (value: T) => void) => {
    u32(9);
    u32(elementType);
    u64(values.length);
    values.forEach(write);
  };
  const typed = (type: number, write: () => void) => {
    u32(type);
    write();
  };

  u32(3);
  u64(tensors.length);
  u64(Object.keys(metadata).length);
  for (const [key, value] of Object.entries(metadata)) {
    text(key);
    if ('u32' in value) typed(4, () => u32(value.u32));
    else if ('f32' in value) typed(6, () => f32(value.f32));
    else if ('bool' in value) typed(7, () => head.push(Uint8Array.of(value.bool ? 1 : 0)));
    else if ('string' in value) typed(8, () => text(value.string));
    else if ('strings' in value) list(8, value.strings, text);
    else if ('f32s' in value) list(6, value.f32s, f32);
    else list(5, value.i32s, i32);
  }
  const aligned = (size: number) => Math.ceil(size / 32) * 32;
  let dataSize = 0;
  const offsets: number[] = [];
  for (const { name, shape, bytes } of tensors) {
    offsets.push(dataSize);
    text(name);
    u32(shape.length);
    for (const size of shape.toReversed()) u64(size);
    u32(0); // F32
    u64(dataSize);
    dataSize += aligned(bytes.length);
  }
  const dataStart = aligned(head.reduce((sum, part) => sum + part.length, 0));
  const file = new Uint8Array(dataStart + dataSize);
  let offset = 0;
  for (const part of head) {
    file.set(part, offset);
    offset += part.length;
  }
  tensors.forEach(({ bytes }, index) => file.set(bytes, dataStart + offsets[index]!));
  return file;
}
