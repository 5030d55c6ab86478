//! Headless Vulkan devices that run a module on arrays of registers.

#![allow(unsafe_code)] // Vulkan's functions are unsafe: their rules are in the order of calls below

use ash::vk;
use picajit::gpu_code::{Control, Device};
use picajit::state::Registers;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a vertex in either storage buffer.
const VERTEX: u64 = 256;

/// Bytes of the uniform buffer.
const BLOCK: usize = 2048;

/// A device of one driver.
pub struct Gpu {
    /// Its name and that of its driver.
    pub name: String,
    /// What it reports.
    pub properties: Device,
    device: ash::Device,
    queue: vk::Queue,
    commands: vk::CommandBuffer,
    layout: vk::PipelineLayout,
    set: vk::DescriptorSet,
    /// Uniforms, inputs, outputs.
    buffers: [Buffer; 3],
    most: usize,
    // Dropped last.
    _loaded: std::sync::Arc<Loaded>,
}

struct Loaded {
    _entry: ash::Entry,
    instance: ash::Instance,
}

#[derive(Clone, Copy)]
struct Buffer {
    buffer: vk::Buffer,
    bytes: *mut u8,
}

/// Messages of the validation layer, once [`devices`] loaded it.
pub static MESSAGES: AtomicUsize = AtomicUsize::new(0);

unsafe extern "system" fn count_message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut std::ffi::c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes a structure with a text.
    let text = unsafe { (*data).message_as_c_str() };
    println!("  {}", text.unwrap_or_default().to_string_lossy());
    MESSAGES.fetch_add(1, Ordering::Relaxed);
    vk::FALSE
}

/// Every device of the machine's drivers, for this many vertices; none without a loader. With `validated` the
/// validation layer watches them; none without the layer.
pub fn devices(most: usize, validated: bool) -> Vec<Gpu> {
    // SAFETY: the loader is the system's library.
    let Ok(entry) = (unsafe { ash::Entry::load() }) else { return Vec::new() };
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
    let severity = vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR;
    let kinds = vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION;
    let mut messenger = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(severity)
        .message_type(kinds)
        .pfn_user_callback(Some(count_message));
    let (layers, extensions) = ([c"VK_LAYER_KHRONOS_validation".as_ptr()], [c"VK_EXT_debug_utils".as_ptr()]);
    let mut info = vk::InstanceCreateInfo::default().application_info(&application);
    if validated {
        info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions).push_next(&mut messenger);
    }
    // SAFETY: `info` and what it points to live through the call, here and below.
    let Ok(instance) = (unsafe { entry.create_instance(&info, None) }) else { return Vec::new() };
    if validated {
        let messages = ash::ext::debug_utils::Instance::new(&entry, &instance);
        // SAFETY: the instance has the extension. The messenger ends with the process.
        unsafe { messages.create_debug_utils_messenger(&messenger, None) }.unwrap();
    }
    let loaded = std::sync::Arc::new(Loaded { _entry: entry, instance });
    // SAFETY: the instance lives.
    let physical = unsafe { loaded.instance.enumerate_physical_devices() }.unwrap_or_default();
    physical.into_iter().filter_map(|physical| Gpu::new(&loaded, physical, most)).collect()
}

impl Gpu {
    fn new(loaded: &std::sync::Arc<Loaded>, physical: vk::PhysicalDevice, most: usize) -> Option<Gpu> {
        let instance = &loaded.instance;
        let mut controls = vk::PhysicalDeviceFloatControlsProperties::default();
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut controls).push_next(&mut driver);
        // SAFETY: the handles are of this instance, and each structure lives through its call. Each object is made
        // from objects of the same device, which lives as long as `Gpu`.
        unsafe {
            instance.get_physical_device_properties2(physical, &mut all);
            let version = all.properties.api_version;
            if version < vk::API_VERSION_1_3 {
                return None;
            }
            let text = |chars: &[std::ffi::c_char]| CStr::from_ptr(chars.as_ptr()).to_string_lossy().into_owned();
            let name = text(&all.properties.device_name);
            let name = format!("{name} ({} {})", text(&driver.driver_name), text(&driver.driver_info));
            let control = |reported| if reported == vk::TRUE { Control::Declared } else { Control::Unknown };
            let properties = Device {
                special_values: control(controls.shader_signed_zero_inf_nan_preserve_float32),
                rounding: control(controls.shader_rounding_mode_rte_float32),
                subnormals: control(controls.shader_denorm_preserve_float32),
            };

            let families = instance.get_physical_device_queue_family_properties(physical);
            let wanted = vk::QueueFlags::COMPUTE | vk::QueueFlags::GRAPHICS;
            let family = families.iter().position(|family| family.queue_flags.contains(wanted))? as u32;
            let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let features = vk::PhysicalDeviceFeatures::default().vertex_pipeline_stores_and_atomics(true);
            let mut rendering = vk::PhysicalDeviceVulkan13Features::default().dynamic_rendering(true);
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_features(&features);
            let device = instance.create_device(physical, &info.push_next(&mut rendering), None).ok()?;
            let queue = device.get_device_queue(family, 0);
            let pool = vk::CommandPoolCreateInfo::default()
                .queue_family_index(family)
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            let pool = device.create_command_pool(&pool, None).unwrap();
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = device.allocate_command_buffers(&info).unwrap()[0];

            let kinds = [
                vk::DescriptorType::UNIFORM_BUFFER,
                vk::DescriptorType::STORAGE_BUFFER,
                vk::DescriptorType::STORAGE_BUFFER,
            ];
            let bindings: Vec<_> = (0..)
                .zip(kinds)
                .map(|(n, kind)| {
                    let stages = vk::ShaderStageFlags::COMPUTE | vk::ShaderStageFlags::VERTEX;
                    let binding = vk::DescriptorSetLayoutBinding::default().binding(n).descriptor_type(kind);
                    binding.descriptor_count(1).stage_flags(stages)
                })
                .collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let sets = [device.create_descriptor_set_layout(&info, None).unwrap()];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            let layout = device.create_pipeline_layout(&info, None).unwrap();
            let sizes = kinds.map(|ty| vk::DescriptorPoolSize { ty, descriptor_count: 1 });
            let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
            let pool = device.create_descriptor_pool(&info, None).unwrap();
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&sets);
            let set = device.allocate_descriptor_sets(&info).unwrap()[0];

            let memory = instance.get_physical_device_memory_properties(physical);
            let usage = vk::BufferUsageFlags::UNIFORM_BUFFER
                | vk::BufferUsageFlags::STORAGE_BUFFER
                | vk::BufferUsageFlags::VERTEX_BUFFER;
            // Groups of a compute program are whole.
            let room = (most as u64).next_multiple_of(64) * VERTEX;
            let buffers = [BLOCK as u64, room, room].map(|size| {
                let info = vk::BufferCreateInfo::default().size(size).usage(usage);
                let buffer = device.create_buffer(&info, None).unwrap();
                let needs = device.get_buffer_memory_requirements(buffer);
                let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
                let kind = (0..memory.memory_type_count).find(|&kind| {
                    needs.memory_type_bits >> kind & 1 != 0
                        && memory.memory_types[kind as usize].property_flags.contains(wanted)
                });
                let info =
                    vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind.unwrap());
                let memory = device.allocate_memory(&info, None).unwrap();
                device.bind_buffer_memory(buffer, memory, 0).unwrap();
                let bytes = device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).unwrap();
                Buffer { buffer, bytes: bytes.cast() }
            });
            for (n, kind) in (0..).zip(kinds) {
                let buffer = buffers[n as usize].buffer;
                let info = [vk::DescriptorBufferInfo { buffer, offset: 0, range: vk::WHOLE_SIZE }];
                let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(n).descriptor_type(kind);
                device.update_descriptor_sets(&[write.buffer_info(&info)], &[]);
            }
            let _loaded = loaded.clone();
            Some(Gpu { name, properties, device, queue, commands, layout, set, buffers, most, _loaded })
        }
    }

    /// A pipeline of a module with the default uniform block and storage buffers 1 and 2: a compute program, or a
    /// vertex stage with these inputs that writes its outputs there.
    pub fn pipeline(&self, words: &[u32], vertex_inputs: Option<u16>) -> Pipeline<'_> {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: `info` and what it points to live through the call.
        let module = unsafe { self.device.create_shader_module(&info, None) }.unwrap();
        let stage = vk::PipelineShaderStageCreateInfo::default().module(module).name(c"main");
        let pipeline = match vertex_inputs {
            None => self.compute_pipeline(stage.stage(vk::ShaderStageFlags::COMPUTE)),
            Some(mask) => self.vertex_pipeline(stage.stage(vk::ShaderStageFlags::VERTEX), mask),
        };
        Pipeline { gpu: self, module, pipeline, is_vertex: vertex_inputs.is_some() }
    }

    fn compute_pipeline(&self, stage: vk::PipelineShaderStageCreateInfo<'_>) -> vk::Pipeline {
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout);
        // SAFETY: the stage's module and the layout are of this device.
        unsafe { self.device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None).unwrap()[0] }
    }

    fn vertex_pipeline(&self, stage: vk::PipelineShaderStageCreateInfo<'_>, mask: u16) -> vk::Pipeline {
        let binding = vk::VertexInputBindingDescription {
            binding: 0,
            stride: VERTEX as u32,
            input_rate: vk::VertexInputRate::VERTEX,
        };
        let bindings = [binding];
        let attributes: Vec<_> = (0..16)
            .filter(|n| mask >> n & 1 != 0)
            .map(|n| vk::VertexInputAttributeDescription {
                location: n,
                binding: 0,
                format: vk::Format::R32G32B32A32_SFLOAT,
                offset: 16 * n,
            })
            .collect();
        let inputs = vk::PipelineVertexInputStateCreateInfo::default()
            .vertex_binding_descriptions(&bindings)
            .vertex_attribute_descriptions(&attributes);
        let assembly =
            vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_STRIP);
        let rasterization =
            vk::PipelineRasterizationStateCreateInfo::default().rasterizer_discard_enable(true).line_width(1.0);
        let mut rendering = vk::PipelineRenderingCreateInfo::default();
        let stages = [stage];
        let info = vk::GraphicsPipelineCreateInfo::default()
            .stages(&stages)
            .vertex_input_state(&inputs)
            .input_assembly_state(&assembly)
            .rasterization_state(&rasterization)
            .layout(self.layout)
            .push_next(&mut rendering);
        // SAFETY: as above; what `info` points to lives through the call.
        unsafe { self.device.create_graphics_pipelines(vk::PipelineCache::null(), &[info], None).unwrap()[0] }
    }
}

/// A pipeline of one module.
pub struct Pipeline<'a> {
    gpu: &'a Gpu,
    module: vk::ShaderModule,
    pipeline: vk::Pipeline,
    is_vertex: bool,
}

impl Pipeline<'_> {
    /// Runs these vertices with the contents of the uniform block.
    pub fn run(&self, block: &[u8], inputs: &[Registers]) -> Vec<Registers> {
        let (gpu, count) = (self.gpu, inputs.len());
        assert!(count <= gpu.most && block.len() <= BLOCK);
        let [to, from, outputs] = gpu.buffers.map(|buffer| buffer.bytes);
        // SAFETY: the buffers are mapped, have room for `most` vertices, and the queue is idle.
        unsafe {
            std::ptr::copy_nonoverlapping(block.as_ptr(), to, block.len());
            std::ptr::copy_nonoverlapping(inputs.as_ptr().cast(), from, count * VERTEX as usize);
            std::ptr::write_bytes(outputs, 0, count * VERTEX as usize);
        }
        self.run_again(count);
        let mut results = vec![Registers::default(); count];
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(outputs, results.as_mut_ptr().cast(), count * VERTEX as usize) };
        results
    }

    /// Runs the first vertices of the run before once more.
    pub fn run_again(&self, count: usize) {
        let Gpu { device, commands, .. } = self.gpu;
        let commands = *commands;
        let bind = if self.is_vertex { vk::PipelineBindPoint::GRAPHICS } else { vk::PipelineBindPoint::COMPUTE };
        // SAFETY: the pipeline and the buffers live, and the queue is idle before and after.
        unsafe {
            device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()).unwrap();
            if self.is_vertex {
                let extent = vk::Extent2D { width: 1, height: 1 };
                let area = vk::Rect2D { offset: vk::Offset2D::default(), extent };
                device.cmd_begin_rendering(commands, &vk::RenderingInfo::default().render_area(area).layer_count(1));
            }
            device.cmd_bind_pipeline(commands, bind, self.pipeline);
            device.cmd_bind_descriptor_sets(commands, bind, self.gpu.layout, 0, &[self.gpu.set], &[]);
            if self.is_vertex {
                device.cmd_bind_vertex_buffers(commands, 0, &[self.gpu.buffers[1].buffer], &[0]);
                // A strip of three or more vertices runs each. Points would need a size.
                device.cmd_draw(commands, count.max(3) as u32, 1, 0, 0);
                device.cmd_end_rendering(commands);
            } else {
                device.cmd_dispatch(commands, count.div_ceil(64) as u32, 1, 1);
            }
            device.end_command_buffer(commands).unwrap();
            let all = [commands];
            let submit = vk::SubmitInfo::default().command_buffers(&all);
            device.queue_submit(self.gpu.queue, &[submit], vk::Fence::null()).unwrap();
            device.queue_wait_idle(self.gpu.queue).unwrap();
        }
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        // SAFETY: the queue is idle.
        unsafe {
            self.gpu.device.destroy_pipeline(self.pipeline, None);
            self.gpu.device.destroy_shader_module(self.module, None);
        }
    }
}
