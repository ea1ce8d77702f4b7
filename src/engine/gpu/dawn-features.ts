/** Features (toggles) of Dawn that `--dawn-features` accepts. Dawn ignores names that it does not know without a word. */
export const dawnFeatureNames = [
  'disable_polyfills_on_integer_div_and_mod',
  'disable_robustness',
  'disable_workgroup_init',
  'dump_shaders',
  'enable_integer_range_analysis_in_robustness',
  'skip_validation',
  'vulkan_use_buffer_robust_access_2',
  'vulkan_use_cooperative_matrix_robust_access',
] as const;
export type DawnFeature = (typeof dawnFeatureNames)[number];

/** Without these checks, a kernel that is not one of ours could read or write what is not its own. */
export const uncheckedDawnFeatures: readonly DawnFeature[] = [
  'disable_polyfills_on_integer_div_and_mod',
  'disable_robustness',
  'disable_workgroup_init',
  'skip_validation',
];
