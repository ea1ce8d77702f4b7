/** Encodes whole blocks of values. */
export type Quantizer = (values: Float32Array) => Uint8Array<ArrayBuffer>;

/** @param encode encodes one block: the elements from `first` on, to the bytes from `at` on */
export const createQuantizer =
  (
    name: string,
    blockElements: number,
    blockBytes: number,
    encode: (values: Float32Array, first: number, out: DataView, at: number) => void,
  ): Quantizer =>
  (values) => {
    if (values.length % blockElements !== 0) {
      throw new RangeError(`${name}: expected a multiple of ${blockElements} values, got ${values.length}`);
    }
    const bytes = new Uint8Array((values.length / blockElements) * blockBytes);
    const out = new DataView(bytes.buffer);
    for (let first = 0, at = 0; first < values.length; first += blockElements, at += blockBytes) {
      encode(values, first, out, at);
    }
    return bytes;
  };
