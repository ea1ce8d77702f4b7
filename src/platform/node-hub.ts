import {
  type ByteSource,
  assertSafePath,
  checkRange,
  ModelFileError,
  type ModelFiles,
} from '../engine/index.ts';
import { chooseModel, type RemoteFile } from '../pull/choose.ts';
import {
  fileUrl,
  createHub,
  type HubAccess,
  hubHeaders,
  listRepository,
  resolveRevision,
} from '../pull/hub.ts';
import { createContentHash } from '../pull/download-record.ts';
import { hubPrefix, parseReference } from '../pull/reference.ts';
import type { HttpOptions } from './http-file.ts';
import { openIfExists } from './web-folder.ts';

interface HubOptions extends HttpOptions {
  /** Weights up to this total size, and other files up to this size, are read at once, verified and held in memory. */
  readonly wholeBytes?: number;
}

const defaultWholeBytes = 64 << 20;

/**
 * Opens a hub repository, `hf:OWNER/NAME[:FILE][@REVISION]`, without storing it. A GGUF file is chosen as by the pull
 * command. Files that are read completely are verified against the hub's checksums. Large weights are read by ranges,
 * which cannot be verified; `notes` says so.
 * @throws ModelFileError `invalid_reference`; from reads `checksum`; PullError from the hub
 */
export const hubFiles = async (
  location: string,
  access: HubAccess,
  { wholeBytes = defaultWholeBytes, ...options }: HubOptions = {},
): Promise<ModelFiles> => {
  const reference = parseReference(location.slice(hubPrefix.length));
  if (!reference) {
    throw new ModelFileError(
      'invalid_reference',
      `'${location}' is not a hub model: expected hf:OWNER/NAME, hf:OWNER/NAME:FILE or hf:OWNER/NAME:Q8_0, optionally followed by @REVISION`,
    );
  }
  const hub = await resolveRevision(createHub(access, reference, options));
  const files = await listRepository(hub);
  const chosen = chooseModel(files, reference.file);
  const listed = new Map(files.map((file) => [file.path, file]));
  const weights = new Set(chosen.files.filter(({ path }) => weightFile.test(path)).map(({ path }) => path));
  const weightBytes = chosen.files.reduce(
    (sum, { path, sizeBytes }) => sum + (weights.has(path) ? sizeBytes : 0),
    0,
  );
  const isReadWhole = ({ path, sizeBytes }: RemoteFile) =>
    (weights.has(path) ? weightBytes : sizeBytes) <= wholeBytes;
  return {
    name: location,
    entry: chosen.entry,
    remote: true,
    ...(weightBytes > wholeBytes ? { notes: [uncheckedNote(location)] } : {}),
    list: async () => [...listed.keys()],
    async open(name) {
      assertSafePath(location, name);
      const file = listed.get(name);
      if (!file) return undefined;
      const source = await openIfExists(fileUrl(hub, name), {
        ...options,
        sizeBytes: file.sizeBytes,
        headers: { ...options.headers, ...hubHeaders(hub) },
      });
      return source && isReadWhole(file) ? await readChecked(source, file) : source;
    },
  };
};

const weightFile = /\.(gguf|safetensors|bin)$/i;

const uncheckedNote = (location: string): string =>
  `${location}: the weights are read by ranges and not verified against the hub's checksums; 'pull' downloads and verifies them`;

/** Reads a file into memory and verifies it. @throws ModelFileError `checksum` */
async function readChecked(
  source: ByteSource,
  { path, sizeBytes, checksum }: RemoteFile,
): Promise<ByteSource> {
  const { name } = source;
  const { kind, hex } = checksum;
  let bytes: Uint8Array;
  try {
    bytes = await source.read(0, sizeBytes);
  } finally {
    await source.close();
  }
  const found = createContentHash(kind, sizeBytes).update(bytes).digest('hex');
  if (found !== hex) {
    throw new ModelFileError(
      'checksum',
      `${name}: the content of ${path} does not match the ${kind} that the hub lists (expected ${hex}, got ${found}); load it again, or contact the operator of the hub`,
    );
  }
  const memory: ByteSource = {
    name,
    sizeBytes,
    async read(offset, length, into) {
      checkRange(memory, { offset, length, into });
      const part = bytes.subarray(offset, offset + length);
      if (!into) return part.slice();
      into.set(part);
      return into.subarray(0, length);
    },
    close: async () => {},
  };
  return memory;
}
