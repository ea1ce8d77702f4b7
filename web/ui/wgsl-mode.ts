/** WGSL tokenizer for CodeMirror's stream languages. */
import type { StreamParser, StringStream } from '@codemirror/language';

interface State {
  /** Depth of nested block comments. */
  comments: number;
  /** Number of open brackets, which is the indentation of the next line. */
  depth: number;
  /** The previous word, sign or number; it decides the style of what follows `fn` or `.`. */
  previous: string;
  /** Position in `var<...>` and `ptr<...>`, the only places of address spaces and access modes. */
  addressSpaceState: 'none' | 'opening' | 'inside';
  /** Name of the open attribute, such as `builtin`, whose argument is a predefined value. */
  attribute: string;
}

const wordSet = (text: string) => new Set(text.split(/\s+/));

const keywords = wordSet(
  'alias break case const const_assert continue continuing default diagnostic discard else enable fn for if let loop ' +
    'override requires return struct switch var while',
);
const typePattern =
  /^(?:bool|f16|f32|i32|u32|vec[234][fhiu]?|mat[234]x[234][fh]?|array|atomic|ptr|sampler(?:_comparison)?|texture_\w+)$/;
const addressSpaces = wordSet('function private workgroup uniform storage read write read_write');
const attributesWithArgument = wordSet('builtin interpolate diagnostic');
const builtins = wordSet(
  'abs acos acosh all any arrayLength asin asinh atan atan2 atanh atomicAdd atomicAnd atomicCompareExchangeWeak ' +
    'atomicExchange atomicLoad atomicMax atomicMin atomicOr atomicStore atomicSub atomicXor bitcast ceil clamp cos cosh ' +
    'countLeadingZeros countOneBits countTrailingZeros cross degrees determinant distance dot dot4I8Packed dot4U8Packed ' +
    'dpdx dpdxCoarse dpdxFine dpdy dpdyCoarse dpdyFine exp exp2 extractBits faceForward firstLeadingBit firstTrailingBit ' +
    'floor fma fract frexp fwidth fwidthCoarse fwidthFine insertBits inverseSqrt ldexp length log log2 max min mix modf ' +
    'normalize pack2x16float pack2x16snorm pack2x16unorm pack4x8snorm pack4x8unorm pack4xI8 pack4xI8Clamp pack4xU8 ' +
    'pack4xU8Clamp pow quadBroadcast quadSwapDiagonal quadSwapX quadSwapY quantizeToF16 radians reflect refract ' +
    'reverseBits round saturate select sign sin sinh smoothstep sqrt step storageBarrier subgroupAdd subgroupAll ' +
    'subgroupAnd subgroupAny subgroupBallot subgroupBroadcast subgroupBroadcastFirst subgroupElect ' +
    'subgroupExclusiveAdd subgroupExclusiveMul subgroupInclusiveAdd subgroupInclusiveMul subgroupMatrixLoad ' +
    'subgroupMatrixMultiply subgroupMatrixMultiplyAccumulate subgroupMatrixStore subgroupMax subgroupMin subgroupMul ' +
    'subgroupOr subgroupShuffle subgroupShuffleDown subgroupShuffleUp subgroupShuffleXor subgroupXor tan tanh ' +
    'textureBarrier textureDimensions textureGather textureGatherCompare textureLoad textureNumLayers textureNumLevels ' +
    'textureNumSamples textureSample textureSampleBaseClampToEdge textureSampleBias textureSampleCompare ' +
    'textureSampleCompareLevel textureSampleGrad textureSampleLevel textureStore transpose trunc unpack2x16float ' +
    'unpack2x16snorm unpack2x16unorm unpack4x8snorm unpack4x8unorm unpack4xI8 unpack4xU8 workgroupBarrier ' +
    'workgroupUniformLoad',
);

const wordPattern = /^[_\p{XID_Start}]\p{XID_Continue}*/u;
const numberPattern =
  /^(?:0[xX](?:[\da-fA-F]+\.[\da-fA-F]*|\.?[\da-fA-F]+)(?:[pP][+-]?\d+[fh]?)?[iu]?|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fh]?|\d+[eE][+-]?\d+[fh]?|(?:0|[1-9]\d*)[fhiu]?)(?![\p{XID_Continue}])/u;
const operatorPattern = /^(?:<<=|>>=|->|&&|\|\||[-+*/%&|^=!<>]=|\+\+|--|[-+*/%&|^!~=<>])/;

/** Consumes to the end of all open comments, or of the line. */
function readComment(stream: StringStream, state: State): string {
  while (state.comments > 0 && !stream.eol()) {
    if (stream.match('/*')) state.comments++;
    else if (stream.match('*/')) state.comments--;
    else stream.next();
  }
  return 'comment';
}

/** Style of a name by its context. */
function nameStyle(name: string, stream: StringStream, state: State): string {
  const { previous } = state;
  if (previous === '@') {
    state.attribute = name;
    return 'attributeName';
  }
  if (previous === '.') return 'propertyName';
  if (state.addressSpaceState === 'inside' && addressSpaces.has(name)) return 'modifier';
  if (attributesWithArgument.has(state.attribute) && previous !== ')') return 'atom';
  if (name === 'true' || name === 'false') return 'bool';
  if (keywords.has(name)) return 'keyword';
  if (previous === 'fn') return 'variableName.function.definition';
  if (previous === 'struct' || previous === 'alias') return 'typeName.definition';
  if (previous === 'enable' || previous === 'requires') return 'atom';
  if (typePattern.test(name)) return 'typeName';
  if (/^(?:let|const|override|var|var>)$/.test(previous)) return 'variableName.definition';
  if (stream.match(/^(?:<[\w\s,<>]*>)?\s*\(/, false))
    return builtins.has(name) ? 'variableName.function.standard' : 'variableName.function';
  return 'variableName';
}

/** Style of a sign; tracks brackets and `var<...>`. */
function signStyle(text: string, state: State): string {
  state.previous = text;
  if (text === '<' && state.addressSpaceState === 'opening') {
    state.addressSpaceState = 'inside';
    return 'operator';
  }
  if (text === '>' && state.addressSpaceState === 'inside') {
    state.addressSpaceState = 'none';
    state.previous = 'var>';
    return 'operator';
  }
  if (/^[{([]$/.test(text)) state.depth++;
  if (/^[})\]]$/.test(text)) state.depth = Math.max(0, state.depth - 1);
  if (text === ')') state.attribute = '';
  if (text === '@') return 'attributeName';
  return /^[{}()[\],;:.]$/.test(text) ? 'punctuation' : 'operator';
}

function token(stream: StringStream, state: State): string | null {
  if (state.comments > 0) return readComment(stream, state);
  if (stream.eatSpace()) return null;
  if (stream.match('//')) {
    // `//#` directives of the WGSL assembler and `//!` lines of a kernel manifest have a meaning for the host.
    const kind = stream.match(/^(?:#(?:if|else|endif|include|unroll)\b|!)/, false) ? 'meta' : 'comment';
    stream.skipToEnd();
    return kind;
  }
  if (stream.match('/*')) {
    state.comments = 1;
    return readComment(stream, state);
  }
  if (stream.match(numberPattern)) {
    state.previous = '0';
    return 'number';
  }
  const name = stream.match(wordPattern);
  if (name) {
    const text = stream.current();
    const kind = nameStyle(text, stream, state);
    state.previous = text;
    if (kind !== 'modifier') state.addressSpaceState = /^(?:var|ptr)$/.test(text) ? 'opening' : 'none';
    return kind;
  }
  if (stream.match(operatorPattern) || stream.match(/^[{}()[\],;:.@]/))
    return signStyle(stream.current(), state);
  stream.next();
  return 'invalid';
}

export const wgslMode: StreamParser<State> = {
  name: 'wgsl',
  startState: () => ({ comments: 0, depth: 0, previous: '', addressSpaceState: 'none', attribute: '' }),
  token,
  indent: ({ depth, comments }, after, { unit }) =>
    comments > 0 ? null : Math.max(0, /^[})\]]/.test(after) ? depth - 1 : depth) * unit,
  languageData: {
    commentTokens: { line: '//', block: { open: '/*', close: '*/' } },
    indentOnInput: /^\s*[})\]]$/,
  },
};
