/** Codes of the gate's findings before parity; they do not change. */
import type { Finding } from '../types.ts';
import type { Place } from '../wgsl/tokens.ts';

export const findingCodes = {
  // parse
  wgsl_error: 'The compiler refuses the source.',
  wgsl_warning: 'The compiler warns.',
  wgsl_note: "The compiler's note to the message before it.",
  empty_source: 'The source holds nothing.',
  source_too_long: 'The source is longer than 256 KiB.',
  nul_character: 'The source holds a NUL character.',
  more_messages: 'The compiler had more to say than is listed.',
  // interface
  missing_entry_point: 'The module has no function of that name with a stage.',
  entry_point_stage: 'The entry point is not a compute shader.',
  wrong_group: 'Bindings are in group 0.',
  unknown_binding: 'The op has no binding of this number.',
  duplicate_binding: 'Two variables have the same binding number.',
  binding_name: "The variable's name differs from the op's name for the binding.",
  binding_space: 'The variable is in another address space than the op binds.',
  binding_access: 'The variable is read or written otherwise than the op binds it.',
  element_type: 'The elements of the buffer are of another type.',
  not_an_array: 'A storage binding is an array sized by its buffer, or a struct that ends in one.',
  padded_element: 'Elements lie farther apart in memory than the op packs them.',
  uniform_type: 'A uniform binding is a struct with the members that the op gives.',
  uniform_member: 'A member of a uniform struct has another type or place.',
  uniform_member_name: "A member of a uniform struct has another name than the op's.",
  missing_output: 'The entry point does not use a binding that it must write.',
  workgroup_size: 'The workgroup is larger than this adapter allows, or has no whole positive size.',
  workgroup_memory: 'Workgroup variables take more memory than this adapter allows.',
  too_many_storage_buffers: 'The op binds more storage buffers than this adapter allows.',
  unknown_override: 'The module declares no override of that name.',
  missing_override: 'An override has neither a default nor a value.',
  override_id: 'Overrides are set by name, so they must not have an @id.',
  override_value: "The value does not fit the override's type.",
  empty_tunable: 'A tunable has no values to try.',
  too_many_combinations: 'The tunables have more than 64 combinations.',
  dispatch_syntax: 'A dispatch expression cannot be read.',
  dispatch_name: 'A dispatch expression uses a name that is neither a dim of the op nor an override.',
  feature_missing: 'The adapter lacks a feature that the kernel needs.',
  feature_implied: 'An enable directive needs a feature that `requires` does not list.',
  feature_unused: '`requires` lists a feature that the source does not enable.',
  unknown_dtype: 'There is no weight format of that name.',
  dtype_not_applicable: 'The op reads no weights, so it has no weight formats.',
  // safety
  unsupported_enable: 'The enable directive is not one that kernels may use.',
  unsupported_requires: 'The requires directive is not one that kernels may use.',
  unsupported_resource: 'Kernels bind buffers only.',
  unsupported_address_space: 'The host sets no variables of this address space.',
  atomic_binding: 'Bound buffers hold no atomics.',
  spin_wait: 'A loop waits for other invocations, which need not run at the same time.',
  endless_loop: 'Nothing in a loop changes what would end it.',
  data_dependent_loop: 'How often a loop runs depends on what buffers hold alone.',
  large_private_memory: 'Private and function variables take more than 64 KiB an invocation.',
  unchecked_pointer: 'Indices through a pointer to a buffer are not checked against its length.',
  array_length: 'Buffers of the live graph are longer than what a step holds.',
  reserved_name: 'A declaration has a name that the bounds-checking build needs.',
  // pipeline
  limit_exceeded: 'The pipeline exceeds a limit of this adapter.',
  pipeline_validation: 'The pipeline is not valid.',
  pipeline_internal: 'The driver could not compile the pipeline.',
} as const satisfies Readonly<Record<string, string>>;

export type FindingCode = keyof typeof findingCodes;

export function finding(
  code: FindingCode,
  severity: Finding['severity'],
  message: string,
  place?: Place,
): Finding {
  if (!place) return { code, severity, message };
  const { line, column, length } = place;
  return { code, severity, message, line, column, length };
}

/** By place in the source; findings without one come first. */
export const byPlace = (a: Finding, b: Finding): number =>
  (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0);
