/** Codes of the gate's findings in the stages before parity. They are stable. */
import type { Finding } from '../types.ts';
import type { SourceLocation } from '../wgsl/tokens.ts';

export const findingCodes = {
  // parse
  wgsl_error: 'The compiler rejects the source.',
  wgsl_warning: 'The compiler reports a warning.',
  wgsl_note: "The compiler's note on the preceding message.",
  empty_source: 'The source is empty.',
  source_too_long: 'The source is longer than 256 KiB.',
  nul_character: 'The source contains a NUL character.',
  more_messages: 'The compiler reported more messages than are listed.',
  // interface
  missing_entry_point: 'The module has no entry point of that name.',
  entry_point_stage: 'The entry point is not a compute shader.',
  wrong_group: 'A binding is not in group 0.',
  unknown_binding: 'The op has no binding of this number.',
  duplicate_binding: 'Two variables have the same binding number.',
  binding_name: "The variable's name differs from the op's name for the binding.",
  binding_space: "The variable's address space differs from the op's binding.",
  binding_access: "The variable's access mode differs from the op's binding.",
  element_type: "The element type of the buffer differs from the op's binding.",
  not_an_array: 'A storage binding is neither a runtime-sized array nor a struct that ends in one.',
  padded_element: 'The stride of the elements is larger than in the packed layout of the op.',
  uniform_type: "A uniform binding is not a struct with the op's members.",
  uniform_member: 'A member of a uniform struct has a wrong type or offset.',
  uniform_member_name: "The name of a uniform struct member differs from the op's.",
  missing_output: 'The entry point does not use a binding that the op must write.',
  workgroup_size: 'The workgroup is larger than this adapter allows, or its size is not a positive integer.',
  workgroup_memory: 'Workgroup variables take more memory than this adapter allows.',
  too_many_storage_buffers: 'The op binds more storage buffers than this adapter allows.',
  unknown_override: 'The module declares no override of that name.',
  missing_override: 'An override has neither a default nor a value.',
  override_id: 'An override has an @id, but overrides are set by name.',
  override_value: "The value does not fit the override's type.",
  empty_tunable: 'A tunable has no values to try.',
  too_many_combinations: 'The tunables have more than 64 combinations.',
  dispatch_syntax: 'A dispatch expression has a syntax error.',
  irregular_dispatch:
    'The number of workgroups is not a ceiling of the number of tokens for some numbers of tokens: rows may be missing there.',
  dispatch_name: 'A dispatch expression uses a name that is neither a dim of the op nor an override.',
  feature_missing: 'The adapter lacks a feature that the kernel needs.',
  feature_implied: 'An enable directive needs a feature that is not listed in `requires`.',
  feature_unused: '`requires` lists a feature that the source does not enable.',
  unknown_dtype: 'There is no weight format of that name.',
  dtype_not_applicable: 'The op reads no weights, so it has no weight formats.',
  // safety
  unsupported_enable: 'The enable directive is not one that kernels may use.',
  unsupported_requires: 'The requires directive is not one that kernels may use.',
  unsupported_resource: 'A binding is not a buffer.',
  unsupported_address_space: 'The host does not support variables in this address space.',
  atomic_binding: 'A bound buffer contains atomics.',
  spin_wait: 'A loop waits for other invocations, which are not guaranteed to run concurrently.',
  endless_loop: 'Nothing in a loop changes its exit condition.',
  unbounded_loop: 'The counter of a loop can pass over the value that ends it.',
  data_dependent_loop: 'The number of iterations of a loop depends only on buffer contents.',
  large_private_memory: 'Private and function variables take more than 64 KiB for each invocation.',
  unchecked_pointer: 'Accesses through a pointer to a buffer are not bounds-checked.',
  array_length:
    'The kernel uses arrayLength, but buffers of the live graph are longer than the data of a step.',
  constant_condition:
    'A condition, or arithmetic in its place, compares sizes, positions or data with a constant: the kernel may be right only where it is tested.',
  data_condition:
    'A condition tests whether data, positions or sizes are equal to one another: the kernel may be right only where it is tested.',
  inexact_index: 'An integer becomes a float and an integer again, which is not exact for large ones.',
  reserved_name: 'A declaration has a name that is reserved for the bounds-checked build.',
  // pipeline
  limit_exceeded: 'The pipeline exceeds a limit of this adapter.',
  pipeline_validation: 'The pipeline is invalid.',
  pipeline_internal: 'The driver could not compile the pipeline.',
} as const satisfies Readonly<Record<string, string>>;

export type FindingCode = keyof typeof findingCodes;

export function createFinding(
  code: FindingCode,
  severity: Finding['severity'],
  message: string,
  location?: SourceLocation,
): Finding {
  if (!location) return { code, severity, message };
  const { line, column, length } = location;
  return { code, severity, message, line, column, length };
}

/** Compares by source location. Findings without a location come first. */
export const byLocation = (a: Finding, b: Finding): number =>
  (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0);
