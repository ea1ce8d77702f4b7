/** Checks module-scope variables against the bindings of an op. */
import type { Contract, ContractBinding, ElementType } from '../../../kernels/contracts.ts';
import type { Finding } from '../types.ts';
import type { EntryPoint, Reflection, Variable } from '../wgsl/reflect.ts';
import { locationOf } from '../wgsl/tokens.ts';
import {
  structLayout,
  packedSizeBytes,
  typeComponents,
  strideOf,
  type CountOf,
  type ScalarName,
} from '../wgsl/types.ts';
import { findReachableNames } from '../wgsl/uses.ts';
import { createFinding } from './codes.ts';

/** Without an entry point, it is not checked whether outputs are written. */
export function checkBindings(
  contract: Contract,
  reflection: Reflection,
  entry: EntryPoint | undefined,
): Finding[] {
  const findings: Finding[] = [];
  const byNumber = new Map<number, Variable>();
  const bindingList = contract.bindings.map(({ name }, index) => `${index} ${name}`).join(', ');
  for (const variable of reflection.variables) {
    const { name, group, binding: number } = variable;
    if (!variable.isResource) continue;
    if (group !== 0) {
      const actual = group ?? 'one that is not known';
      findings.push(
        createFinding('wrong_group', 'error', `${name}: expected group 0, got ${actual}`, variable),
      );
      continue;
    }
    const binding = number === undefined ? undefined : contract.bindings[number];
    if (number === undefined || !binding) {
      const message = `${name}: expected a binding of ${contract.op} (${bindingList}), got ${number ?? 'one that is not known'}`;
      findings.push(createFinding('unknown_binding', 'error', message, variable));
      continue;
    }
    const other = byNumber.get(number);
    if (other) {
      const message = `${name}: expected one variable at binding ${number}, got ${other.name} and ${name}`;
      findings.push(createFinding('duplicate_binding', 'error', message, variable));
    }
    byNumber.set(number, variable);
    findings.push(...checkVariable(variable, binding, number, reflection));
  }
  if (entry) findings.push(...missingOutputs(contract, byNumber, reflection, entry));
  return findings;
}

function missingOutputs(
  contract: Contract,
  byNumber: ReadonlyMap<number, Variable>,
  reflection: Reflection,
  entry: EntryPoint,
): Finding[] {
  const used = findReachableNames(reflection, entry.name);
  return contract.bindings.flatMap(({ name, role }, number) => {
    if (role !== 'out' && role !== 'inout') return [];
    const variable = byNumber.get(number);
    if (variable && used.has(variable.name)) return [];
    const actual = variable ? `one that ${entry.name} does not use` : 'none';
    const message = `expected @group(0) @binding(${number}) var<storage, read_write> ${name}, got ${actual}`;
    return [createFinding('missing_output', 'error', message, variable ?? entry)];
  });
}

function checkVariable(
  variable: Variable,
  binding: ContractBinding,
  number: number,
  reflection: Reflection,
): Finding[] {
  const findings: Finding[] = [];
  const { name, space, access, typeLocation } = variable;
  // `gain` was the name of `norm_weight`.
  if (name !== binding.name && !(name === 'gain' && binding.name === 'norm_weight')) {
    const message = `binding ${number} is named ${binding.name} in the op and ${name} here`;
    findings.push(createFinding('binding_name', 'info', message, variable));
  }
  const wantedSpace = binding.role === 'uniform' ? 'uniform' : 'storage';
  if (space !== wantedSpace) {
    const actual = space === 'handle' ? variable.typeText : `var<${space}>`;
    const message = `${name}: expected var<${wantedSpace}>, got ${actual}`;
    findings.push(createFinding('binding_space', 'error', message, variable));
    return findings;
  }
  const wantedAccess = binding.role === 'out' || binding.role === 'inout' ? 'read_write' : 'read';
  if (access !== wantedAccess) {
    const why = binding.role === 'in' ? 'inputs are shared' : `${binding.role} bindings are written`;
    const message = `${name}: expected ${wantedAccess}, got ${access} (${why})`;
    findings.push(createFinding('binding_access', 'error', message, variable));
  }
  const countOf: CountOf = (count) => reflection.evaluate(count);
  if (binding.role === 'uniform') findings.push(...checkUniform(variable, binding, reflection, countOf));
  else findings.push(...checkElements(variable, binding.dtype ?? 'f32', countOf));
  return findings.map((one) => (one.line === undefined ? { ...one, ...typeLocation } : one));
}

function checkUniform(
  { name, type, typeText, typeLocation }: Variable,
  { members: wanted = [] }: ContractBinding,
  { tokens }: Reflection,
  countOf: CountOf,
): Finding[] {
  const bindingList = wanted.map(([member, scalar]) => `${member}: ${scalar}`).join(', ');
  if (type.kind !== 'struct') {
    return [
      createFinding(
        'uniform_type',
        'error',
        `${name}: expected a struct of ${bindingList}, got ${typeText}`,
        typeLocation,
      ),
    ];
  }
  const memberLayout = structLayout(type.struct, countOf);
  return type.struct.members.flatMap((member, index) => {
    const location = locationOf(tokens, { from: member.token, to: member.token + 1 });
    const [wantedName, wantedType] = wanted[index] ?? [];
    if (wantedName === undefined || wantedType === undefined) {
      const message = `${type.struct.name}.${member.name}: expected at most ${wanted.length} members (${bindingList}), got ${type.struct.members.length}`;
      return [createFinding('uniform_member', 'error', message, location)];
    }
    const actual = member.type.kind === 'scalar' ? member.type.name : member.type.kind;
    const offset = memberLayout?.[index]?.offset;
    if (actual !== wantedType && !(wantedType === 'u32' && actual === 'i32')) {
      const message = `${type.struct.name}.${member.name}: expected ${wantedName}: ${wantedType}, got ${actual}`;
      return [createFinding('uniform_member', 'error', message, location)];
    }
    if (offset !== undefined && offset !== index * 4) {
      const message = `${type.struct.name}.${member.name}: expected byte offset ${index * 4}, got ${offset}`;
      return [createFinding('uniform_member', 'error', message, location)];
    }
    if (member.name === wantedName) return [];
    const message = `${type.struct.name}.${member.name} holds ${wantedName}`;
    return [createFinding('uniform_member_name', 'warning', message, location)];
  });
}

const allowedScalars: Readonly<Record<ElementType, readonly ScalarName[]>> = {
  f32: ['f32'],
  u32: ['u32', 'i32'],
  f16: ['u32', 'f16'],
  weights: ['u32', 'i32', 'f32', 'f16'],
};
/** Structs of 32-bit words may also contain f32. */
const allowedInRecords: Readonly<Record<ElementType, readonly ScalarName[]>> = {
  ...allowedScalars,
  u32: ['u32', 'i32', 'f32'],
};

const structuralParts: ReadonlySet<string> = new Set(['array', 'atomic']);

function checkElements(
  { name, type, typeText, typeLocation }: Variable,
  dtype: ElementType,
  countOf: CountOf,
): Finding[] {
  const last = type.kind === 'struct' ? type.struct.members.at(-1)?.type : type;
  const scalars = allowedScalars[dtype];
  const example = `array<${scalars[0]}>`;
  if (last?.kind !== 'array' || last.count) {
    const message = `${name}: expected an array sized by its buffer, for example ${example}, got ${typeText}`;
    return [createFinding('not_an_array', 'error', message, typeLocation)];
  }
  const isRecord = type.kind === 'struct' || last.element.kind === 'struct';
  const wanted = isRecord ? allowedInRecords[dtype] : scalars;
  const unexpected = [...typeComponents(type)].filter(
    (part) => !structuralParts.has(part) && !wanted.some((one) => one === part),
  );
  if (unexpected.length > 0) {
    const message = `${name}: expected elements of ${wanted.join(', ')} or vectors of them (${dtype}), got ${unexpected.join(', ')} in ${typeText}`;
    return [createFinding('element_type', 'error', message, typeLocation)];
  }
  const bytes = packedSizeBytes(last.element, countOf);
  const stride = strideOf(last.element, countOf);
  if (bytes === undefined || stride === undefined || bytes === stride) return [];
  const message = `${name}: elements of ${bytes} bytes have a stride of ${stride} bytes in ${typeText}, but the op packs them`;
  return [createFinding('padded_element', 'warning', message, typeLocation)];
}
