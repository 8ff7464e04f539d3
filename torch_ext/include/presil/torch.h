// SPDX-License-Identifier: Apache-2.0
// For operators of your own on the device presil, in C++: launches on the chip (presil.h) and host access over tensors,
// without copies.
//
// Link with Presil::torch (find_package(Presil COMPONENTS torch)); tests/extension is a worked example. Functions raise
// c10::Error, with the driver's text where the driver refused; they may be called from any thread. Tensors must be
// dense (strided) and on the device presil unless said otherwise.
#pragma once
#include <presil.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace presil::api {

#define PRESIL_TORCH_API __attribute__((visibility("default")))

// How many devices this process has; never opens one.
PRESIL_TORCH_API int device_count();

// The driver's handle of a tensor's device, opened on first use. Owned by the library; valid until the process ends.
PRESIL_TORCH_API presil_device* device_of(const at::Tensor& tensor);

// The calling thread's current stream on the tensor's device (null: the default stream). Owned by the library.
PRESIL_TORCH_API presil_stream* stream_of(const at::Tensor& tensor);

// The tensor as the driver sees it: address, dtype, shape and strides in elements. order: which dimension of the tensor
// each of the view's is, outermost first
// ({0, 2, 3, 1}: NCHW as NHWC); empty: all as they are. At most 4. Raises on dtypes other than float32, bfloat16, int8,
// int32.
PRESIL_TORCH_API presil_tensor describe(const at::Tensor& tensor, at::IntArrayRef order = {});

// Calls enqueue(device, stream), which enqueues driver operators that write `written` and returns the driver's status.
// True: enqueued; the tensor is ready for whatever is enqueued or read after it. False: the chip can't do it
// (PRESIL_EUNSUPPORTED), nothing happened: compute it another way. Other statuses raise. op: the operator's name for
// error texts.
PRESIL_TORCH_API bool launch(const char* op, const at::Tensor& written,
                             const std::function<int(presil_device*, presil_stream*)>& enqueue);

// Host access to tensors of one device for the time of one operator, over the same memory. The constructor waits for
// the chip where it has work queued, and raises under torch.backends.presil.strict; the destructor counts the operator
// as computed by the host, for so long.
class PRESIL_TORCH_API Host {
 public:
  // op: as it appears in torch.presil's reports; reason: why the host computes it.
  Host(const char* op, const char* reason, const at::Tensor& any_operand);
  ~Host();  // what was written is known from here on: packed copies of it are packed again
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  // CPU tensors that share the memory: same dtype, shape and strides. Don't resize them; they keep the memory alive,
  // but end them with the operator: what is enqueued later doesn't wait for their readers.
  at::Tensor read(const at::Tensor& tensor) const;
  at::Tensor write(const at::Tensor& tensor) const;

 private:
  const int index_;
  const std::string op_, reason_;
  int64_t start_ns_ = 0;
  mutable std::vector<at::Tensor> written_;
};

}  // namespace presil::api
