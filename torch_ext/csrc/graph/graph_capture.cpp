// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_capture.h"

#include "host/facts.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/writes.h"

#include <c10/core/CPUAllocator.h>

#include <set>

namespace presil {
namespace {

// Shapes or values that leave the device depend on data; the out= forms carry no tag.
bool depends_on_data(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  static const std::set<std::string> names{"aten::nonzero",
                                           "aten::masked_select",
                                           "aten::_unique",
                                           "aten::_unique2",
                                           "aten::unique_dim",
                                           "aten::unique_consecutive",
                                           "aten::unique_dim_consecutive",
                                           "aten::equal",
                                           "aten::_local_scalar_dense",
                                           "aten::bincount",
                                           "aten::allclose",
                                           "aten::is_nonzero",
                                           "torchvision::nms"};
  const auto& name = op.schema().name();
  if (name == "aten::index") {  // only masks do
    for (const auto& t : arguments[1].toOptionalTensorVector())
      if (t && t->defined() && (t->scalar_type() == c10::kBool || t->scalar_type() == c10::kByte)) return true;
    return false;
  }
  if (name == "aten::repeat_interleave" && op.schema().arguments().size() == 2 &&
      op.schema().overload_name() == "Tensor")
    return !arguments[1].isInt();
  return names.count(name) || op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
}

const void* start_of(const at::Tensor& t) { return t.defined() && t.has_storage() ? t.storage().data() : nullptr; }

}  // namespace

GraphCapture::GraphCapture(int index, c10::StreamId stream, std::shared_ptr<GraphPool> pool, CaptureMode mode,
                           const std::vector<at::Generator>& generators)
    : Capture(index, stream, mode == CaptureMode::global), pool_(std::move(pool)) {
  for (const auto& g : generators)
    generators_.emplace_back(g, at::Tensor::wrap_tensor_impl(g.unsafeGetGeneratorImpl()->get_state()));
  check(presil_stream_create(device(index), 0, &record_stream_), "preparing a capture");
}

GraphCapture::~GraphCapture() { presil_stream_destroy(record_stream_); }

void GraphCapture::refuse(const std::string& what, const std::string& why) {
  const std::string text = "presil: " + what + " can't be captured in a graph: " + why;
  if (refused_.empty()) refused_ = text;
  TORCH_CHECK(false, text);
}

// ---- memory
void GraphCapture::keep(const c10::Storage& storage) {
  const void* at = storage.data();
  if (at && !owns(at)) work_.outside.emplace(at, storage);
}

// Memory of others is put back at the end. The launches that write it have been waited for.
void GraphCapture::save(const c10::Storage& storage) {
  const char* at = static_cast<const char*>(storage.data());
  if (!at || saved_.count(at) || owns(at)) return;
  saved_.emplace(at, Saved{storage, std::vector<char>(at, at + storage.nbytes())});
}

void GraphCapture::note_write(Step& step, const c10::Storage& storage) {
  const void* at = storage.data();
  if (!at) return;
  step.written.emplace_back(at, storage.nbytes());
  written_.insert(at);
  keep(storage);
}

void GraphCapture::check_operand(const std::string& name, const at::Tensor& t) {
  const void* at = start_of(t);
  if (!at) return;
  const int where = device_of_pointer(at);
  if (where < 0) {
    if (t.dim() > 0 && !t.is_pinned())
      refuse(name, "it reads or writes host memory that is not pinned: use tensors of the device, or x.pin_memory()");
    return;
  }
  if (where != index) refuse(name, c10::str("it uses presil:", where, ", the capture is on presil:", index));
  if (pool_->owner(at) == GraphPool::Owner::others)
    refuse(name, "an operand lies in the memory pool of another graph, which that one's replays write: capture both "
                 "with the same pool (pool=graph.pool()), or clone() it before");
}

// The same tensor for replays: memory of the pool is only looked at, other memory is kept; CPU scalars are constants.
at::Tensor GraphCapture::fixed(const at::Tensor& t) {
  const void* at = start_of(t);
  if (!t.defined() || !t.has_storage()) return t;
  c10::Storage storage = t.storage();
  if (at && device_of_pointer(at) < 0) {
    if (t.dim() == 0) {
      at::Tensor constant = t.clone();
      if (t.unsafeGetTensorImpl()->is_wrapped_number())
        constant.unsafeGetTensorImpl()->set_wrapped_number(true);  // it promotes types differently
      return constant;
    }
  } else if (at && owns(at)) {
    auto& view = views_[at];
    if (!view || view.nbytes() != storage.nbytes())
      view = c10::Storage(c10::Storage::use_byte_size_t{}, storage.nbytes(),
                          c10::DataPtr(const_cast<void*>(at), c10::Device(c10::kCPU)), c10::GetCPUAllocator(), false);
    storage = view;
  } else {
    keep(storage);
  }
  auto out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                      t.dtype());
  copy_metadata(t.unsafeGetTensorImpl(), out.unsafeGetTensorImpl());
  return out;
}

c10::IValue GraphCapture::fixed(const c10::IValue& v) {
  if (v.isTensor()) return fixed(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(fixed(t));
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& t : v.toOptionalTensorVector())
      list.push_back(t ? std::optional<at::Tensor>(fixed(*t)) : std::nullopt);
    return list;
  }
  return v;
}

// ---- launches
int GraphCapture::launch(const char* label, Operands reads, Operands outputs, const Enqueue& enqueue) {
  for (const auto* t : reads) {
    if (!t->defined()) continue;
    check_operand(label, *t);
    keep(t->storage());
  }
  for (const auto* t : outputs) {
    check_operand(label, *t);
    if (owns(start_of(*t))) continue;
    wait_pending(index);
    save(t->storage());
  }
  presil_list* list = nullptr;
  check(presil_record_begin(device(index), record_stream_), label);
  const int status = enqueue(record_stream_);
  check(presil_record_end(device(index), record_stream_, &list), label);
  auto step = std::make_unique<LaunchStep>(label, list);
  if (status) return status;
  check(presil_list_submit(list, current_stream(index)), label);
  for (const auto* t : outputs) note_write(*step, t->storage());
  add(std::move(step));
  return status;
}

std::shared_ptr<presil_weights> GraphCapture::weights(const WeightRequest& request) {
  for (const auto* t : request.operands())
    if (t->defined()) check_operand("packing weights", *t);
  auto weights = std::make_shared<CapturedWeights>(request);
  work_.weights.push_back(weights);
  add(std::make_unique<WeightsStep>(weights));
  return {weights->packed(), weights->packed()->handle()};
}

// ---- host operators
void GraphCapture::check_operator(const HostCall& call, const std::string& name) {
  if (depends_on_data(call.op, call.arguments))
    refuse(name, "a shape or a value that the host sees depends on the data");
  bool random = call.engine.defined();
  at::Generator generator = call.engine;
  for (const auto& v : call.arguments) {
    visit_tensors(v, [&](const at::Tensor& t) { check_operand(name, t); });
    if (v.isGenerator() && v.toGenerator().defined()) {
      random = true;
      generator = v.toGenerator();
    }
  }
  if (!random) return;
  for (const auto& known : generators_)
    if (known.first == generator) return;
  refuse(name, "it draws from a generator that the graph does not know: call graph.register_generator_state(generator) "
               "before the capture");
}

CapturedCall* GraphCapture::begin(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                                  const at::Generator& engine) {
  auto call = std::make_unique<HostCall>(op);
  call->arguments = arguments.vec();
  call->engine = engine;
  check_operator(*call, c10::toString(op.operator_name()));
  const OperatorFacts& facts = facts_of(op);
  for (size_t i = 0; i < call->arguments.size(); i++) {
    if (!facts.writes(i, call->arguments.data())) continue;
    visit_tensors(call->arguments[i], [&](const at::Tensor& t) {
      if (!start_of(t)) return;
      save(t.storage());
      call->memory.emplace_back(start_of(t), t.storage().nbytes());
    });
  }
  call->previous_plan = exchange_allocation_plan(&call->plan);
  return call.release();
}

void GraphCapture::cancel(CapturedCall& call_) {
  const std::unique_ptr<HostCall> call(static_cast<HostCall*>(&call_));
  exchange_allocation_plan(call->previous_plan);
}

void GraphCapture::end(CapturedCall& call_, torch::jit::Stack& results, size_t first, bool replaceable) {
  const std::unique_ptr<HostCall> call(static_cast<HostCall*>(&call_));
  exchange_allocation_plan(call->previous_plan);
  const std::string name = c10::toString(call->op.operator_name());
  std::set<const void*> known;
  for (const auto& v : call->arguments) visit_tensors(v, [&](const at::Tensor& t) { known.insert(start_of(t)); });
  for (const auto& [at, bytes] : call->memory)
    if (!known.count(at) && bytes)
      refuse(name, "it moves memory that holds data (a resize): give it a result of the right size");
  if (call->op.hasTag(at::Tag::inplace_view)) return;  // sizes and strides only

  std::vector<HostStep::Result> fresh;
  size_t position = 0;
  const auto result = [&](const at::Tensor& t) {
    const size_t here = position++;
    at::Tensor out = t;
    const void* at = start_of(t);
    if (!at || known.count(at)) return out;
    if (!owns(at)) {
      if (!replaceable) refuse(name, "its result is not in memory of the device");
      const AllocateOnDevice scope(index);
      out = t.clone();
      at = start_of(out);
    }
    for (auto& block : call->plan.blocks)
      if (block.data == at) block.result = true;
    fresh.push_back({here, fixed(out)});
    return out;
  };
  for (size_t i = first; i < results.size(); i++) {
    c10::IValue& v = results[i];
    if (v.isTensor()) {
      v = result(v.toTensor());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(result(t));
      v = std::move(list);
    }
  }
  const OperatorFacts& facts = facts_of(call->op);
  bool writes = false;
  for (size_t i = 0; i < call->arguments.size(); i++) writes |= facts.writes(i, call->arguments.data());
  if (fresh.empty() && !writes) return;  // a view

  torch::jit::Stack arguments;
  for (const auto& v : call->arguments) arguments.push_back(fixed(v));
  std::vector<c10::Storage> storages;
  for (const auto& r : fresh) storages.push_back(r.place.storage());
  for (size_t i = 0; i < call->arguments.size(); i++)
    if (facts.writes(i, call->arguments.data()))
      visit_tensors(call->arguments[i], [&](const at::Tensor& t) {
        if (t.defined()) storages.push_back(t.storage());
      });
  auto step = std::make_unique<HostStep>(name, call->op, std::move(arguments), std::move(fresh), std::move(call->plan),
                                         call->engine);
  for (const auto& s : storages) note_write(*step, s);
  add(std::move(step));
}

// ---- the end
CapturedWork GraphCapture::finish(std::string* refused) {
  try {
    wait_pending(index);
  } catch (const c10::Error& e) {
    if (refused_.empty()) refused_ = std::string("presil: a captured launch failed: ") + e.what_without_backtrace();
  }
  for (auto& [at, saved] : saved_) {
    if (saved.storage.data() == at) memcpy(const_cast<void*>(at), saved.content.data(), saved.content.size());
    memory_written(at, saved.content.size());
  }
  for (auto& [generator, state] : generators_)
    generator.unsafeGetGeneratorImpl()->set_state(*state.unsafeGetTensorImpl());
  *refused = refused_;
  return std::move(work_);
}

}  // namespace presil
