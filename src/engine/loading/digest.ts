import { firstNonFinite } from './finite.ts';
import { isFloatType } from '../formats/float-bytes.ts';
import { type ModelFile, type TensorInfo, tensorTypes } from '../formats/model-file.ts';
import { bytesOfRow, rowsOf } from '../formats/rows.ts';
import type { Hasher, Platform } from '../platform.ts';
import type { QuantizeType } from '../types.ts';
import { decodeVector } from './weights.ts';

const chunkBytes = 4 << 20;

/**
 * Returns `sha256:<hex>` over the model's content, independent of its container: the architecture, and the type,
 * shape and bytes of each tensor in name order. A split set, the merged file and a folder of the same weights have
 * the same digest. Vectors are hashed as f32 values, because containers store them differently. Reads every tensor
 * once.
 * @param quantize type that the weights are quantized to while loading; it is added to the digest of the original
 * @param hashes hashes of tensors that need not be read again, from `hashWhileReading`
 * @param valueCheck tensors whose values are also checked; `onBadTensor` is called for each with an infinite or NaN
 * value
 */
export async function digestOf(
  platform: Pick<Platform, 'sha256'>,
  file: ModelFile,
  quantize?: QuantizeType,
  hashes?: ReadonlyMap<string, string>,
  valueCheck?: { readonly tensors: readonly string[]; readonly onBadTensor: (bad: BadTensor) => void },
): Promise<string> {
  const checksValues = (name: string) => valueCheck?.tensors.includes(name) ?? false;
  const { digest, bad } = await digestTensors(platform, file, { quantize, hashes, checksValues });
  for (const one of bad) valueCheck?.onBadTensor(one);
  return digest;
}

/** The digest, and the checked tensors that hold an infinite or NaN value. */
interface ModelCheck {
  readonly digest: string;
  readonly bad: readonly BadTensor[];
}

/** A tensor that holds an infinite or NaN value. */
export interface BadTensor {
  readonly name: string;
  /** Row of the matrix; 0 for a vector. */
  readonly row: number;
}

/**
 * Reads every tensor once, computes the digest, and checks every value for infinity and NaN.
 * @param onTensor called before each tensor is read
 */
export const verifyModel = (
  platform: Pick<Platform, 'sha256'>,
  file: ModelFile,
  onTensor?: (done: number, total: number) => void,
): Promise<ModelCheck> => digestTensors(platform, file, { checksValues: () => true, onTensor });

interface DigestOptions {
  readonly quantize?: QuantizeType | undefined;
  /** Hashes already known, by tensor name. */
  readonly hashes?: ReadonlyMap<string, string> | undefined;
  /** True for tensors whose values are checked as well. */
  readonly checksValues: (name: string) => boolean;
  readonly onTensor?: ((done: number, total: number) => void) | undefined;
}

async function digestTensors(
  platform: Pick<Platform, 'sha256'>,
  file: ModelFile,
  options: DigestOptions,
): Promise<ModelCheck> {
  const bad: BadTensor[] = [];
  const modelHasher = platform.sha256();
  addText(modelHasher, `architecture ${String(file.metadata.get('general.architecture'))}`);
  const tensors = [...file.tensors.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const buffer = new Uint8Array(Math.min(chunkBytes, Math.max(0, ...tensors.map((one) => one.sizeBytes))));
  for (const [index, tensor] of tensors.entries()) {
    options.onTensor?.(index, tensors.length);
    const { name, shape } = tensor;
    const type = isVector(tensor) ? 'F32' : tensor.type;
    const hash =
      options.hashes?.get(name) ??
      (await hashTensor(platform, file, {
        tensor,
        buffer,
        bad: options.checksValues(name) ? bad : undefined,
      }));
    addText(modelHasher, `${name} ${type} ${shape.join('x')} ${hash}`);
  }
  if (options.quantize !== undefined) addText(modelHasher, `quantized to ${options.quantize}`);
  return { digest: `sha256:${modelHasher.digest()}`, bad };
}

const encoder = new TextEncoder();
const addText = (hasher: Hasher, line: string): void => hasher.update(encoder.encode(`${line}\n`));

const isVector = ({ shape, type }: TensorInfo): boolean => shape.length === 1 && isFloatType(type);

/** The bytes of these rows that are hashed. */
export function hashedBytes({ shape, type }: TensorInfo, bytes: Uint8Array): Uint8Array {
  return shape.length === 1 && isFloatType(type) ? new Uint8Array(decodeVector(type, bytes).buffer) : bytes;
}

async function hashTensor(
  platform: Pick<Platform, 'sha256'>,
  file: ModelFile,
  { tensor, buffer, bad }: { tensor: TensorInfo; buffer: Uint8Array; bad: BadTensor[] | undefined },
): Promise<string> {
  const hasher = platform.sha256();
  const rows = rowsOf(tensor);
  const rowBytes = bytesOfRow(tensor);
  const maxRows = Math.max(1, Math.floor(chunkBytes / rowBytes));
  for (let row = 0; row < rows; row += maxRows) {
    const count = Math.min(maxRows, rows - row);
    const into = count * rowBytes <= buffer.length ? buffer : undefined;
    const bytes = await file.readRows(tensor, row, count, into);
    hasher.update(hashedBytes(tensor, bytes));
    // One report for each tensor is enough.
    if (!bad || bad.at(-1)?.name === tensor.name) continue;
    const badBlock = firstNonFinite(tensor.type, bytes);
    if (badBlock !== -1) {
      const blocksOfRow = rowBytes / tensorTypes[tensor.type].blockBytes;
      bad.push({ name: tensor.name, row: row + Math.floor(badBlock / blocksOfRow) });
    }
  }
  return hasher.digest();
}
