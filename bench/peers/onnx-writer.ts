/** Writer for the part of ONNX's protobuf format that a decoder's graph needs. Field numbers are from `onnx.proto3`. */

/** Element types with ONNX's numbers. */
export const onnxType = { float: 1, uint8: 2, int32: 6, int64: 7 } as const;
export type OnnxType = (typeof onnxType)[keyof typeof onnxType];

/** A tensor stored in the model. */
export interface OnnxInitializer {
  readonly name: string;
  readonly type: OnnxType;
  readonly shape: readonly number[];
  /** Little-endian, row-major. */
  readonly data: Uint8Array;
}

/** An input or output of the graph; a named dimension may differ between runs. */
export interface OnnxValue {
  readonly name: string;
  readonly type: OnnxType;
  readonly shape: readonly (number | string)[];
}

export interface OnnxNode {
  readonly op: string;
  /** `''` is the default ONNX domain. */
  readonly domain: '' | 'com.microsoft';
  /** An empty name omits an optional input. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly ints?: Readonly<Record<string, number>>;
  readonly floats?: Readonly<Record<string, number>>;
}

export interface OnnxGraph {
  readonly nodes: readonly OnnxNode[];
  readonly initializers: readonly OnnxInitializer[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

const irVersion = 10;
const opset = 21;

/** Content of the model file. Weights are embedded, so it must be smaller than protobuf's limit of 2 GiB. */
export function onnxModel(graph: OnnxGraph): Buffer {
  return message([
    int(1, irVersion),
    string(2, 'lathe-bench'),
    bytes(8, message([string(1, ''), int(2, opset)])),
    bytes(8, message([string(1, 'com.microsoft'), int(2, 1)])),
    bytes(
      7,
      message([
        string(2, 'decoder'),
        ...graph.nodes.map((node, index) => bytes(1, nodeOf(node, index))),
        ...graph.initializers.map((tensor) => bytes(5, tensorOf(tensor))),
        ...graph.inputs.map((value) => bytes(11, valueOf(value))),
        ...graph.outputs.map((value) => bytes(12, valueOf(value))),
      ]),
    ),
  ]);
}

const attributeType = { float: 1, int: 2 } as const;

const nodeOf = (node: OnnxNode, index: number): Buffer =>
  message([
    ...node.inputs.map((name) => string(1, name)),
    ...node.outputs.map((name) => string(2, name)),
    string(3, `${node.op}_${index}`),
    string(4, node.op),
    ...Object.entries(node.ints ?? {}).map(([name, value]) =>
      bytes(5, message([string(1, name), int(3, value), int(20, attributeType.int)])),
    ),
    ...Object.entries(node.floats ?? {}).map(([name, value]) =>
      bytes(5, message([string(1, name), float(2, value), int(20, attributeType.float)])),
    ),
    string(7, node.domain),
  ]);

const tensorOf = ({ name, type, shape, data }: OnnxInitializer): Buffer =>
  message([...shape.map((length) => int(1, length)), int(2, type), string(8, name), bytes(9, data)]);

const valueOf = ({ name, type, shape }: OnnxValue): Buffer => {
  const dimensions = shape.map((one) =>
    bytes(1, message([typeof one === 'number' ? int(1, one) : string(2, one)])),
  );
  const tensorType = message([int(1, type), bytes(2, message(dimensions))]);
  return message([string(1, name), bytes(2, message([bytes(1, tensorType)]))]);
};

/** Protobuf wire types. */
const wire = { varint: 0, bytes: 2, fixed32: 5 } as const;

const message = (fields: readonly (readonly Uint8Array[])[]): Buffer => Buffer.concat(fields.flat());
const tag = (field: number, kind: number): Uint8Array => varint(field * 8 + kind);
const int = (field: number, value: number): Uint8Array[] => [tag(field, wire.varint), varint(value)];
const string = (field: number, value: string): Uint8Array[] => bytes(field, Buffer.from(value));
const bytes = (field: number, value: Uint8Array): Uint8Array[] => [
  tag(field, wire.bytes),
  varint(value.length),
  value,
];
const float = (field: number, value: number): Uint8Array[] => [
  tag(field, wire.fixed32),
  new Uint8Array(new Float32Array([value]).buffer),
];

/** Encodes a non-negative integer. */
function varint(value: number): Uint8Array {
  const digits: number[] = [];
  let rest = value;
  while (rest >= 128) {
    digits.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  return Uint8Array.of(...digits, rest);
}
