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

const pyTorchAdvice =
  'save the model as safetensors (save_pretrained of transformers) and name its folder, or download it as GGUF';

const fileSignatures: readonly { matches: (head: Uint8Array) => boolean; description: string }[] = [
  {
    matches: (head) => ascii(head).startsWith('version https://git-lfs'),
    description: 'a Git LFS pointer, not the model itself: run `git lfs pull` or download the file',
  },
  {
    matches: (head) => /^\s*<(!doctype|html|\?xml)/i.test(ascii(head)),
    description: 'a web page: the download returned an error or a login page; download the file itself',
  },
  {
    matches: isSafetensors,
    description:
      'a safetensors file: put config.json and tokenizer.json of the model into its folder and name the folder, or convert it to GGUF',
  },
  {
    matches: (head) => startsWith(head, 0x50, 0x4b, 3, 4),
    description: `a ZIP archive or a PyTorch checkpoint: unpack an archive; for a checkpoint, ${pyTorchAdvice}`,
  },
  {
    matches: (head) => startsWith(head, 0x80, 2) || startsWith(head, 0x80, 4),
    description: `a Python pickle (an old PyTorch checkpoint): ${pyTorchAdvice}`,
  },
  {
    // A protobuf that starts with a small format version and the name of the producer.
    matches: (head) => startsWith(head, 8) && (head[1] ?? 0) > 0 && (head[1] ?? 0) < 32 && head[2] === 0x12,
    description:
      'an ONNX graph, which is not supported: download the model as GGUF or as a safetensors folder',
  },
  { matches: (head) => startsWith(head, 0x1f, 0x8b), description: 'a gzip archive: unpack it first' },
  {
    matches: (head) => startsWith(head, 0x28, 0xb5, 0x2f, 0xfd),
    description: 'a zstd archive: unpack it first',
  },
  {
    matches: (head) => startsWith(head, 0xfd, 0x37, 0x7a, 0x58),
    description: 'an xz archive: unpack it first',
  },
  {
    matches: (head) => /^(GGML|lmgg|ggjt|tjgg|fmgg|ggmf)/i.test(ascii(head)),
    description:
      'a GGML file, the format before GGUF: download the model as GGUF, or convert the original again',
  },
  {
    matches: (head) => /^\s*[{[]/.test(ascii(head)),
    description: 'JSON: name the .gguf file or the folder of the model instead',
  },
  {
    matches: (head) => head.length > 0 && head.every((byte) => byte === 0),
    description: 'only zero bytes: the download did not finish',
  },
];

/**
 * Describes a file for an error message.
 * @param head the first bytes, up to 64
 */
export const describeForeignFile = (head: Uint8Array): string =>
  fileSignatures.find(({ matches }) => matches(head))?.description ??
  `something else (it starts with ${[...head.subarray(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ')})`;
