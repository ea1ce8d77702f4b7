/** Identifies files that are not models from their first bytes, and says what to do. */

const ascii = (head: Uint8Array): string => String.fromCharCode(...head.subarray(0, 64));

const startsWith = (head: Uint8Array, ...bytes: number[]): boolean =>
  bytes.every((byte, index) => head[index] === byte);

/** A safetensors file starts with a u64 header length and a JSON object. */
const isSafetensors = (head: Uint8Array): boolean => {
  if (head.length < 9 || head[8] !== 0x7b) return false;
  const length = new DataView(head.buffer, head.byteOffset).getBigUint64(0, true);
  return length > 1n && length < 1n << 32n;
};

const fromPyTorch =
  'save the model as safetensors (save_pretrained of transformers) and name its folder, or download it as GGUF';

const recognisers: readonly { fits: (head: Uint8Array) => boolean; found: string }[] = [
  {
    fits: (head) => ascii(head).startsWith('version https://git-lfs'),
    found: 'a Git LFS pointer, not the model itself: run `git lfs pull` or download the file',
  },
  {
    fits: (head) => /^\s*<(!doctype|html|\?xml)/i.test(ascii(head)),
    found: 'a web page: the download returned an error or a login page; download the file itself',
  },
  {
    fits: isSafetensors,
    found:
      'a safetensors file: put config.json and tokenizer.json of the model into its folder and name the folder, or convert it to GGUF',
  },
  {
    fits: (head) => startsWith(head, 0x50, 0x4b, 3, 4),
    found: `a ZIP archive or a PyTorch checkpoint: unpack an archive; for a checkpoint, ${fromPyTorch}`,
  },
  {
    fits: (head) => startsWith(head, 0x80, 2) || startsWith(head, 0x80, 4),
    found: `a Python pickle (an old PyTorch checkpoint): ${fromPyTorch}`,
  },
  {
    // A protobuf that starts with a small format version and the name of the producer.
    fits: (head) => startsWith(head, 8) && (head[1] ?? 0) > 0 && (head[1] ?? 0) < 32 && head[2] === 0x12,
    found: 'an ONNX graph, which is not supported: download the model as GGUF or as a safetensors folder',
  },
  { fits: (head) => startsWith(head, 0x1f, 0x8b), found: 'a gzip archive: unpack it first' },
  { fits: (head) => startsWith(head, 0x28, 0xb5, 0x2f, 0xfd), found: 'a zstd archive: unpack it first' },
  { fits: (head) => startsWith(head, 0xfd, 0x37, 0x7a, 0x58), found: 'an xz archive: unpack it first' },
  {
    fits: (head) => /^(GGML|lmgg|ggjt|tjgg|fmgg|ggmf)/i.test(ascii(head)),
    found: 'a GGML file, the format before GGUF: download the model as GGUF, or convert the original again',
  },
  {
    fits: (head) => /^\s*[{[]/.test(ascii(head)),
    found: 'JSON: name the .gguf file or the folder of the model instead',
  },
  {
    fits: (head) => head.length > 0 && head.every((byte) => byte === 0),
    found: 'only zero bytes: the download did not finish',
  },
];

/**
 * Describes a file for an error message.
 * @param head the first bytes, up to 64
 */
export const describeForeignFile = (head: Uint8Array): string =>
  recognisers.find(({ fits }) => fits(head))?.found ??
  `something else (it starts with ${[...head.subarray(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ')})`;
