/** Writes and reads safetensors files for tests, right or deliberately wrong. */

export interface SafeTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

const frame = (header: Uint8Array, data: Uint8Array): Uint8Array => {
  const bytes = new Uint8Array(8 + header.length + data.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true);
  bytes.set(header, 8);
  bytes.set(data, 8 + header.length);
  return bytes;
};

/** A file with this header, whatever it says, before so many bytes of data. */
export const safetensorsWith = (header: string, dataBytes: number): Uint8Array =>
  frame(new TextEncoder().encode(header), new Uint8Array(dataBytes));

export const safetensorsBytes = (tensors: Readonly<Record<string, SafeTensor>>): Uint8Array => {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let end = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [end, end + data.length] };
    end += data.length;
  }
  const whole = new Uint8Array(end);
  let at = 0;
  for (const { data } of Object.values(tensors)) {
    whole.set(data, at);
    at += data.length;
  }
  return frame(new TextEncoder().encode(JSON.stringify(header)), whole);
};

/** The tensors of a file that is right. */
export const tensorsOf = (bytes: Uint8Array): Record<string, SafeTensor> => {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const data = bytes.subarray(8 + length);
  return Object.fromEntries(
    Object.entries(header)
      .filter(([name]) => name !== '__metadata__')
      .map(
        ([
          name,
          {
            dtype,
            shape,
            data_offsets: [begin, end],
          },
        ]) => [name, { dtype, shape, data: data.subarray(begin, end) }],
      ),
  );
};

/** Zeros of a dtype of `elementBytes`. */
export const zeros = (dtype: string, shape: readonly number[], elementBytes: number): SafeTensor => ({
  dtype,
  shape,
  data: new Uint8Array(shape.reduce((product, extent) => product * extent, elementBytes)),
});
