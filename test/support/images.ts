/** Small images of each kind; only their headers are read. */
const base64 = (text: string) => Buffer.from(text, 'base64');

/** @param fill bytes after the header */
export function pngOf(width: number, height: number, fill = 0): Buffer {
  const head = base64(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  );
  head.writeUInt32BE(width, 16);
  head.writeUInt32BE(height, 20);
  return Buffer.concat([head, Buffer.alloc(fill)]);
}

export const gif = base64('R0lGODlhAwACAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7');
/** Lossy, lossless and extended. */
export const webps = [
  base64('UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoDAAIADsD+JaQAA3AAAAAA'),
  base64('UklGRhoAAABXRUJQVlA4TA0AAAAvAkAAAAfQ//73v/+BiOh/AAA='),
  Buffer.concat([base64('UklGRiIAAABXRUJQVlA4WAoAAAAAAAAA'), Buffer.from([2, 0, 0, 1, 0, 0])]),
] as const;

/** With a segment before the frame header, as one with a preview has it. */
export function jpegOf(width: number, height: number, segmentBytes = 100): Buffer {
  const segment = Buffer.alloc(2 + segmentBytes, 1);
  segment.set([0xff, 0xe1]);
  segment.writeUInt16BE(segmentBytes, 2);
  const frame = Buffer.from([0xff, 0xc2, 0, 17, 8, 0, 0, 0, 0, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
  frame.writeUInt16BE(height, 5);
  frame.writeUInt16BE(width, 7);
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    segment,
    Buffer.from([0xff]),
    frame,
    Buffer.from([0xff, 0xd9]),
  ]);
}
