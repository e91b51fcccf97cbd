/** Capacity Scheduler diagnostics in Hadoop 3.4.3 for applications whose ApplicationMaster has no container yet. */

/** The application requests 8 vcores, and YARN has reserved them on a node. The queue usage includes the reservation. */
export const ACTIVATED = [
  '[Mon Nov 23 08:01:03 +0000 2026] Application is Activated, waiting for resources to be assigned for AM. ',
  ' Last Node which was processed for the application : node2:8041 ( Partition : [],',
  ' Total resource : <memory:8192, vCores:8, yarn.io/gpu: 4>, Available resource : <memory:5632, vCores:4, yarn.io/gpu: 1> ).',
  ' Details : AM Partition = <DEFAULT_PARTITION> ; Partition Resource = <memory:16384, vCores:16, yarn.io/gpu: 8> ;',
  " Queue's Absolute capacity = 50.0 % ; Queue's Absolute used capacity = 93.75 % ; Queue's Absolute max capacity = 100.0 % ;",
  " Queue's capacity (absolute resource) = <memory:8192, vCores:8, yarn.io/gpu: 4> ;",
  " Queue's used capacity (absolute resource) = <memory:5120, vCores:15, yarn.io/gpu: 6> ;",
  " Queue's max capacity (absolute resource) = <memory:16384, vCores:16, yarn.io/gpu: 8> ; ",
].join('');

/** The ApplicationMasters in the queue already use as many resources as the queue allows for ApplicationMasters. */
export const QUEUE_FULL = [
  "[Fri Nov 20 10:00:00 +0000 2026] Application is added to the scheduler and is not yet activated. Queue's AM resource limit exceeded. ",
  ' Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request = <memory:1024, vCores:1>;',
  ' Queue Resource Limit for AM = <memory:1024, vCores:1>; User AM Resource Limit of the queue = <memory:1024, vCores:1>;',
  ' Queue AM Resource Usage = <memory:1024, vCores:1>; ',
].join('');
