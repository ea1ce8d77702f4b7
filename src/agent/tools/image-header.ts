/** Kind and size of an image, from its first bytes. */
export interface ImageHeader {
  readonly mediaType: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
  /** Pixels; undefined where the file is broken. */
  readonly size: { readonly width: number; readonly height: number } | undefined;
}

/** Bytes that tell the kind of an image. */
export const signatureBytes = 16;

/** Reads the header of a PNG, JPEG, GIF or WebP; undefined for anything else. */
export function readImageHeader(bytes: Buffer): ImageHeader | undefined {
  const text = (start: number, end: number) => bytes.toString('latin1', start, end);
  if (text(0, 8) === '\x89PNG\r\n\x1a\n') return { mediaType: 'image/png', size: pngSize(bytes) };
  if (text(0, 3) === '\xff\xd8\xff') return { mediaType: 'image/jpeg', size: jpegSize(bytes) };
  if (text(0, 6) === 'GIF87a' || text(0, 6) === 'GIF89a')
    return { mediaType: 'image/gif', size: sizeAt(bytes, 6, (at) => bytes.readUInt16LE(at), 2) };
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP')
    return { mediaType: 'image/webp', size: webpSize(bytes) };
  return undefined;
}

type Size = ImageHeader['size'];

/** Reads width and height, one after the other. */
function sizeAt(bytes: Buffer, at: number, read: (at: number) => number, numberBytes: number): Size {
  if (bytes.length < at + 2 * numberBytes) return undefined;
  const [width, height] = [read(at), read(at + numberBytes)];
  return width > 0 && height > 0 ? { width, height } : undefined;
}

const pngSize = (bytes: Buffer): Size =>
  bytes.toString('latin1', 12, 16) === 'IHDR'
    ? sizeAt(bytes, 16, (at) => bytes.readUInt32BE(at), 4)
    : undefined;

/** The size is in the frame header, after segments of any number and length. */
function jpegSize(bytes: Buffer): Size {
  for (let at = 2; at + 9 <= bytes.length; ) {
    if (bytes[at] !== 0xff) return undefined;
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) {
      const size = sizeAt(bytes, at + 5, (place) => bytes.readUInt16BE(place), 2);
      return size && { width: size.height, height: size.width };
    }
    const hasNoLength = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    // After the start of the scan there is no header any more.
    if (marker === 0xd9 || marker === 0xda) return undefined;
    at += 2 + (hasNoLength ? 0 : bytes.readUInt16BE(at + 2));
  }
  return undefined;
}

function webpSize(bytes: Buffer): Size {
  if (bytes.length < 30) return undefined;
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return sizeAt(bytes, 26, (at) => bytes.readUInt16LE(at) & 0x3fff, 2);
    case 'VP8L': {
      const bits = bytes.readUInt32LE(21);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case 'VP8X':
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
    default:
      return undefined;
  }
}
