/**
 * Compiles pipelines without running them. Some drivers (Mesa's llvmpipe) compile a shader when it is first
 * dispatched, not when its pipeline is created, and take seconds for it. An indirect dispatch of zero workgroups
 * triggers the compilation and runs nothing; a direct dispatch of zero workgroups is dropped by Dawn before the
 * driver sees it.
 */

export interface Dispatchable {
  readonly pipeline: GPUComputePipeline;
  /** Bind groups from index 0, matching the pipeline's layout. */
  readonly bindGroups: readonly GPUBindGroup[];
}

/** Submits the empty dispatches. Compilation has finished when `device.queue.onSubmittedWorkDone()` resolves. */
export function submitCompilation(device: GPUDevice, dispatches: Iterable<Dispatchable>): void {
  const noWorkgroups = device.createBuffer({
    label: 'compile.no_workgroups',
    size: 12,
    usage: GPUBufferUsage.INDIRECT,
  });
  const encoder = device.createCommandEncoder({ label: 'compile' });
  const pass = encoder.beginComputePass({ label: 'compile' });
  for (const { pipeline, bindGroups } of dispatches) {
    pass.setPipeline(pipeline);
    for (const [index, group] of bindGroups.entries()) pass.setBindGroup(index, group);
    pass.dispatchWorkgroupsIndirect(noWorkgroups, 0);
  }
  pass.end();
  device.queue.submit([encoder.finish()]);
  noWorkgroups.destroy();
}
