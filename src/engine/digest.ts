import type { Platform } from './platform.ts';

const chunkBytes = 4 << 20;

/** `sha256:<hex>` of a whole model file, read once through. */
export async function digestOf(platform: Platform, location: string): Promise<string> {
  const source = await platform.openModel(location);
  try {
    const hasher = platform.sha256();
    const buffer = new Uint8Array(Math.min(chunkBytes, source.sizeBytes));
    for (let offset = 0; offset < source.sizeBytes; offset += chunkBytes) {
      hasher.update(await source.read(offset, Math.min(chunkBytes, source.sizeBytes - offset), buffer));
    }
    return `sha256:${hasher.digest()}`;
  } finally {
    await source.close();
  }
}
